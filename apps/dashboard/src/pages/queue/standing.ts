/** The state of a tenant in the queue, in a few words: why it waits, or whether it is next. */
import type { Tone } from '../../words/endings.ts'
import type { QueueTenant } from './queue.ts'

interface TenantStanding {
  tone: Tone
  words: string
}

/**
 * A waiting tenant counts as held back if it got less than this part of its due share. The rest is tolerance,
 * because shares of one minute always vary a little.
 */
const ENOUGH = 0.8

/** Whether it waits although it got less than it is due. False while nobody's share is known. */
export const isHeldBack = ({ share_1m: got, due_share: due, waiting }: QueueTenant): boolean =>
  got !== null && waiting > 0 && got < due * ENOUGH

const standing = (tone: Tone, words: string): TenantStanding => ({ tone, words })

/** The words for a tenant that is not served, although nothing in its row says why. */
export const NOT_SERVED = 'Not served now'

/** The strongest reason first: a cap of 0 stops a tenant that would otherwise be next. */
export function standingOf(tenant: QueueTenant): TenantStanding {
  const { concurrency, running, waiting, delayed, place } = tenant
  if (tenant.kill_switch === true) return standing('bad', 'Stopped: a cap is 0')
  if (tenant.parked_until !== null) return standing('warn', 'Parked: a cap is used up')
  if (waiting === 0 && running > 0) return standing('busy', 'Runs, nothing waits')
  if (waiting === 0) return standing('wait', delayed > 0 ? 'Only delayed' : 'Nothing waits')
  if (concurrency !== null && running >= concurrency) return standing('warn', 'At its concurrency')
  if (place === 1) return standing('ok', 'Next')
  if (place !== null) return standing('wait', 'Waits its turn')
  return standing('warn', NOT_SERVED)
}
