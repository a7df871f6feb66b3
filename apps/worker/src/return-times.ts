/**
 * When the executions come back that wait for a vendor's room: one after the other, so that they keep their order, and so that
 * many of them cost the queue no more than a few. Those that come while the vendor rests are put off again without asking it.
 */

/** Room comes with the end of somebody's program. */
const FIRST_MS = 1000
/** Taken and put off, one costs some milliseconds of Redis and this worker. */
const APART_MS = 50
/** With more than 600 waiting, they come closer together than that. */
const LAST_MS = 30_000

/** Tells the time (Redis' clock, as `nowMs`) at which the next one that is put off comes back. */
export function createReturnTimes(): (nowMs: number) => number {
  let lastMs = 0
  return (nowMs) => {
    lastMs = Math.min(Math.max(nowMs + FIRST_MS, lastMs + APART_MS), nowMs + LAST_MS)
    return lastMs
  }
}
