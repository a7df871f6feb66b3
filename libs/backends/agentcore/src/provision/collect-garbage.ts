/**
 * Finds interpreters that no row names: their tenant was deleted or their ID was lost. They are found by
 * name, because the service lists no tags. They cost nothing but count toward the account's quota of 1,000.
 */
import { isAwsFailure } from './aws-failure.ts'
import type { ListedInterpreter } from './control-plane.ts'
import { interpreterName, isOurName } from './interpreter-name.ts'
import type { WantedInterpreter } from './interpreter-rows.ts'
import type { ProvisionParts } from './provision-interpreter.ts'

/** An interpreter that no row names. */
export interface FoundGarbage {
  interpreter_id: string
  name: string
  age_ms: number
}

/** What the collector did with it. */
export interface GarbageLine extends FoundGarbage {
  /** `wanted`: a row waits for this name and will adopt it. `in-use`: the service refused the deletion. */
  action: 'deleted' | 'would-delete' | 'young' | 'wanted' | 'in-use'
}

/** Another process may have created a younger one and not written its ID yet. */
const MIN_AGE_MS = 3_600_000
const GOING = new Set(['DELETING', 'DELETED'])

/** Deletes what `mayDelete` allows. `wanted` holds all rows. Throws `AwsFailure`. */
export async function collectGarbage(
  { control, config, rows, signal }: Pick<ProvisionParts, 'control' | 'config' | 'rows' | 'signal'>,
  wanted: readonly WantedInterpreter[],
  mayDelete: (found: FoundGarbage) => boolean,
): Promise<GarbageLine[]> {
  const named = new Set(wanted.flatMap(({ interpreter_id: id }) => (id === null ? [] : [id])))
  const waiting = new Set(
    wanted
      .filter(({ interpreter_id: id }) => id === null)
      .map((row) => interpreterName(config.prefix, row.tenant_id, row.environment)),
  )
  const found: ListedInterpreter[] = []
  for await (const one of control.list())
    if (isOurName(config.prefix, one.name) && !GOING.has(one.status) && !named.has(one.id)) found.push(one)

  const lines: GarbageLine[] = []
  for (const one of found) {
    signal.throwIfAborted()
    const age = Date.now() - one.createdAtMs
    const line = { interpreter_id: one.id, name: one.name, age_ms: age }
    if (age < MIN_AGE_MS) lines.push({ ...line, action: 'young' })
    else if (waiting.has(one.name)) lines.push({ ...line, action: 'wanted' })
    else if (!mayDelete(line)) lines.push({ ...line, action: 'would-delete' })
    // Check each one again, because its ID may have been written since the rows were read.
    else if (!(await rows.isNamed(one.id))) lines.push({ ...line, action: await deleted(control, one.id) })
  }
  return lines
}

async function deleted(
  control: Pick<ProvisionParts['control'], 'delete'>,
  id: string,
): Promise<'deleted' | 'in-use'> {
  try {
    await control.delete(id)
    return 'deleted'
  } catch (error) {
    if (isAwsFailure(error, 'conflict')) return 'in-use'
    throw error
  }
}
