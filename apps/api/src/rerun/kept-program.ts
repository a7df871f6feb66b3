/**
 * Reads the kept request of an ended execution. If there is none, says why, and which setting would keep
 * later requests.
 */
import { CofferdamError, keptRequestSchema, type KeptRequest } from '@cofferdam/contract'
import type { EndedExecution } from '../find-execution.ts'
import type { RouteContext } from '../route-context.ts'
import { noCapacity, type Hold } from '../shares.ts'

/** A kept request. Dispose it when you no longer hold it in memory, to release its bytes from the budget. */
export interface KeptProgram extends Disposable {
  kept: KeptRequest
}

/**
 * Throws `not_found` when the request was not kept or was deleted. If the policy was the cause, the details
 * have `keep_program` (the setting now) and `kept_by` (settings that would keep it). Throws `busy` when
 * `holder` has too much in memory.
 */
export async function readKept(
  context: RouteContext,
  ended: EndedExecution,
  holder: string,
): Promise<KeptProgram> {
  const { blobs } = context.store
  const { requestRef: ref } = ended
  if (ref === null) throw await notKept(context, ended)
  const size = (await blobs.read(ref, { start: 0, end: 0 }))?.total
  const hold = size === undefined ? null : holdBytes(context, holder, size)
  try {
    const stored = hold === null ? null : await blobs.read(ref)
    if (hold === null || stored === null) throw deleted(ended)
    const kept = keptRequestSchema.safeParse(JSON.parse(Buffer.from(stored.bytes).toString('utf8')))
    if (!kept.success)
      throw new CofferdamError('internal', 'The kept program has a form that this release does not know.')
    return { kept: kept.data, [Symbol.dispose]: () => hold[Symbol.dispose]() }
  } catch (error) {
    hold?.[Symbol.dispose]()
    throw error
  }
}

function holdBytes({ bodies }: RouteContext, holder: string, bytes: number): Hold {
  const hold = bodies.take(holder, bytes)
  if (hold === null) throw noCapacity('kept programs')
  return hold
}

const deleted = ({ last }: EndedExecution): CofferdamError =>
  new CofferdamError(
    'not_found',
    'The program was kept and is deleted by now: programs are deleted together with full outputs, after ' +
      'output_retention_days or retention_days of the policy. Send the request again.',
    { details: { tenant_id: last.tenant_id } },
  )

async function notKept({ store }: RouteContext, { result, last }: EndedExecution): Promise<CofferdamError> {
  if (result.backend === null)
    return missing(
      `It ended ${result.ending} and never reached a sandbox, and only programs that did are kept. ` +
        'Send the request again.',
    )
  const now = (await store.tenants.get(last.tenant_id))?.policy.keep_program ?? 'never'
  const isOk = result.ending === 'ok'
  const keptBy = isOk ? ['always'] : ['errors', 'always']
  const setting = `the policy of tenant ${last.tenant_id} has keep_program ${now}`
  if (!keptBy.includes(now))
    return missing(
      `${capital(setting)}, and it ended ${result.ending}. With ${keptBy.join(' or ')}, later programs ` +
        'that end so are kept.',
      { keep_program: now, kept_by: keptBy },
    )
  return missing(
    `Now ${setting}, but the program was not kept when it ended: the policy was another one then, it was an ` +
      'operation on the files of a session, or its worker could not store it and says so in its log.',
    { keep_program: now, kept_by: keptBy },
  )
}

const missing = (why: string, details?: Record<string, unknown>): CofferdamError =>
  new CofferdamError(
    'not_found',
    `The program of this execution is not kept, so it cannot be run again. ${why}`,
    details === undefined ? {} : { details },
  )

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)
