/**
 * Enforces the CPU-time limit with the sandbox's own counter. The counter is read again at the earliest time
 * at which the limit could be reached, so a sleeping program costs few reads, and a computing one is stopped
 * within CHECK_MS of its limit. Works for every backend that measures CPU time.
 */
import type { Sandbox } from '@cofferdam/contract'
import type { Clock } from './clock.ts'

/** Twice the kernel's slowest tick (10 ms). More frequent reads would show nothing new. */
const CHECK_MS = 20
/** Pause after a read that failed. */
const RETRY_MS = 1000

export interface CpuTimeWatch extends Disposable {
  /** Aborts when the limit is passed, and never without a limit. */
  readonly passed: AbortSignal
}

/** Watches `sandbox` while it runs. `parallel` is how many CPUs its processes can use at once. */
export function watchCpuTime(
  sandbox: Pick<Sandbox, 'usage'>,
  options: { limitMs: number | undefined; parallel: number; clock: Clock },
): CpuTimeWatch {
  const { limitMs, parallel, clock } = options
  const passed = new AbortController()
  let clear: () => void = () => undefined
  let isOver = limitMs === undefined

  const askIn = (leftMs: number): void => {
    clear = clock.after(Math.max(CHECK_MS, leftMs / Math.max(parallel, 0.05)), () => void ask())
  }
  async function ask(): Promise<void> {
    if (isOver || limitMs === undefined) return
    const answer = await sandbox.usage().catch(() => null)
    if (isOver) return
    // A sandbox that is ending does not answer, and its run reports the end. Any other one answers later.
    if (answer === null) clear = clock.after(RETRY_MS, () => void ask())
    else if ((answer.cpu_ms ?? 0) > limitMs) passed.abort()
    else askIn(limitMs - (answer.cpu_ms ?? 0))
  }

  if (limitMs !== undefined) askIn(limitMs)
  return {
    passed: passed.signal,
    [Symbol.dispose]() {
      isOver = true
      clear()
    },
  }
}
