/** With Redis away BullMQ waits for it for ever; a worker that stops must not. */
import { inTime } from '@cofferdam/contract'

/** Long enough for a round trip to a slow server, short beside a drain. */
const CLOSE_MS = 2000

/** Resolves when `work` has settled either way, or after two seconds: what is under way then is done again elsewhere. */
export async function closeWithin(work: Promise<unknown>): Promise<void> {
  await inTime(work, CLOSE_MS, () => new Error('late')).catch(() => undefined)
}
