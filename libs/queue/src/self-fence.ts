/**
 * What a worker does of itself when Redis is silent: nobody can tell it any more that another worker owns what it runs.
 *
 *   runs again elsewhere when it is lost (`retry.on` worker_lost) ─► stopped when the lock runs out: two runs of a program
 *                                                                    that counts on its predecessor's end must not overlap
 *   any other ─► stopped after `silenceMs`: nobody starts it again, so that a restart or a failover of Redis costs no run;
 *                but its side effects end, for its heir has ended it and cannot reach its sandbox from another host
 *
 * Stopped means that the signal aborts with `lock_lost`, as if the worker had heard it: the sandbox is destroyed and nothing is
 * recorded. Time counts from the moment a renewal was sent, by a monotonic clock, and ends a turn early.
 */
import { StopReason } from '@cofferdam/contract'
import type { HeldExecution } from './taken.ts'

export interface SelfFence {
  /** Redis took a renewal of these that was sent then. */
  renewed(held: Iterable<HeldExecution | null>, sentMs: number): void
  /** One turn: stops what has been held for too long without a renewal. */
  check(held: readonly HeldExecution[]): void
}

/** `now` is a monotonic clock; `turnMs` how often `check` is called. */
export function createSelfFence(
  { lockMs, silenceMs, turnMs }: { lockMs: number; silenceMs: number; turnMs: number },
  now: () => number = () => performance.now(),
): SelfFence {
  const renewedMs = new WeakMap<HeldExecution, number>()
  let checkedMs = now()
  let slept = false

  return {
    renewed(held, sentMs) {
      for (const one of held) if (one !== null) renewedMs.set(one, sentMs)
    },
    check(held) {
      const atMs = now()
      // This process itself slept: Redis may answer at once, and knows better. Once: one that is always late must stop, too.
      slept = !slept && atMs - checkedMs > 2 * turnMs
      checkedMs = atMs
      for (const one of held) {
        const sinceMs = renewedMs.get(one)
        if (sinceMs === undefined) renewedMs.set(one, atMs - turnMs)
        else if (!slept && !one.over && atMs - sinceMs >= (runsAgain(one) ? lockMs : silenceMs) - turnMs)
          one.stop(new StopReason('lock_lost', 'Redis has been silent for too long'))
      }
    },
  }
}

function runsAgain({ taken: { request, attempt } }: HeldExecution): boolean {
  const { program, retry } = request
  // Files of a session have no point of no return: whoever takes such an execution next does it all again.
  if (program.type === 'files') return true
  return retry !== undefined && attempt < retry.max_attempts && retry.on.includes('worker_lost')
}
