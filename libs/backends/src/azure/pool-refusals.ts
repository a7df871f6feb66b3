/** What the service refuses, as errors of ours that say whether anything was done, and what of its words may be repeated. */
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import type { PoolCall, TimedAnswer } from './pool-api.ts'

const errorSchema = z.object({
  error: z.object({
    // It goes into messages: a word, and nothing that could quote an identifier.
    code: z.string().regex(/^[A-Za-z][A-Za-z.]{0,79}$/),
    message: z.string().optional(),
    target: z.string().max(200).nullish(),
    traceId: z.string().max(200).nullish(),
  }),
})

/** True when the service says that there is no such session (any more). */
export const saysGone = (error: unknown): boolean =>
  error instanceof CofferdamError &&
  (error.details['azure'] === 'SessionWithIdentifierNotFound' || error.details['status'] === 404)

/** The service's refusal as an error of ours. Its message is left out: it may quote the identifier. */
export function refusalOf(
  { status, body, retryAfterMs: waitMs }: TimedAnswer,
  call: PoolCall,
): CofferdamError {
  const parsed = errorSchema.safeParse(json(body))
  const { code, target, traceId } = parsed.success ? parsed.data.error : { code: '' }
  const named = call.identifier ?? call.query?.['identifier']
  const mayTell = (text: string | null | undefined): text is string =>
    text != null && (named === undefined || !text.includes(named))
  const details = {
    status,
    azure: code,
    ...(mayTell(target) ? { target } : {}),
    ...(mayTell(traceId) ? { trace: traceId } : {}),
    ...(waitMs === null ? {} : { retry_after_ms: waitMs }),
    ...(status === 429 ? { full: true } : {}),
  }
  const [ours, words] = classOf(status, code, call)
  return new CofferdamError(ours, `Azure: ${words} (${status}${code === '' ? '' : ` ${code}`}).`, { details })
}

function classOf(
  status: number,
  code: string,
  { identifier, allocates }: PoolCall,
): [CofferdamError['code'], string] {
  const isOfSession = identifier !== undefined
  if (code === 'SessionWithIdentifierNotFound') return ['sandbox_lost', 'the session is gone']
  // Its time is up, or it is being taken down: in no case does it do what was asked.
  if (isOfSession && (status === 409 || status === 410)) return ['sandbox_lost', 'the session is over']
  // Of a pool that is full, by the older documents; of a session that is there, and of its files, that it is another one.
  if (isOfSession && status === 404)
    return allocates === true
      ? ['backend_unavailable', 'the pool has no session free, or is not there']
      : ['sandbox_lost', 'the session is gone']
  if (status === 401) return ['backend_unavailable', 'the pool does not take the token']
  if (status === 403)
    return ['backend_unavailable', 'the role "Azure ContainerApps Session Executor" on the pool is missing']
  if (status === 413) return ['payload_too_large', 'the upload is too large']
  if (status === 429) return ['backend_unavailable', 'the pool has no session free, or throttles']
  if (status >= 500) return ['backend_unavailable', 'the pool failed']
  return ['sandbox_open_failed', 'the pool refuses the call']
}

/** What `Retry-After` says in seconds; null where it says nothing, or a date. */
export function retryAfterMs(response: Response): number | null {
  const seconds = response.headers.get('retry-after') ?? ''
  return /^\d{1,6}$/.test(seconds) ? Number(seconds) * 1000 : null
}

/** The body; throws `protocol_violation` above `maxBytes`. */
export async function bounded(response: Response, maxBytes: number): Promise<Buffer> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of response.body ?? []) {
    size += part.length
    if (size > maxBytes)
      throw new CofferdamError('protocol_violation', `Azure: an answer above ${maxBytes} bytes.`)
    parts.push(part)
  }
  return Buffer.concat(parts, size)
}

/** JSON of an answer; null where it is none. */
export function json(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return null
  }
}
