/**
 * Stops executions when Redis is silent, because then nothing can tell this worker that another one owns
 * them.
 *
 * An execution that is retried after `worker_lost` stops when its lock expires: two attempts must not
 * overlap. Any other execution stops after `silenceMs`. No worker starts it again, so a restart of Redis
 * costs no run. This worker must stop it in the end: the next owner records its ending, but cannot reach the
 * sandbox from another host.
 *
 * The signal aborts with `lock_lost`, as if Redis had reported that. The sandbox is destroyed and nothing is
 * recorded. The time counts from when the last answered renewal was sent, by a monotonic clock. The stop
 * comes one check early, so that it is never late.
 */
import { StopReason } from '@cofferdam/contract'
import type { HeldExecution } from './create-taken.ts'

export interface SelfFence {
  /** Notes that Redis accepted a renewal of the held executions, sent at `sentMs`. */
  renewed(held: Iterable<HeldExecution | null>, sentMs: number): void
  /** Stops executions that have gone without a renewal for too long. */
  check(held: readonly HeldExecution[]): void
}

/** `now` is a monotonic clock; `turnMs` is the period of `check`. */
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
      // If this process itself was suspended, Redis may answer at once, so skip one check. Skip only one,
      // because a process that is always late must also stop its executions.
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
  // File transfers of a session have no point of no return, and the next owner repeats them.
  if (program.type === 'files') return true
  return retry !== undefined && attempt < retry.max_attempts && retry.on.includes('worker_lost')
}
