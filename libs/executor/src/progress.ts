/**
 * Progress that a program reports. At most ten times a second, the newest report is passed on and older ones
 * are dropped. If the request has a heartbeat, reports are required at intervals. The program is not trusted,
 * so reports are bounded here again.
 */
import type { Progress } from '@cofferdam/contract'
import type { Clock } from './clock.ts'

const GAP_MS = 100

export interface ProgressWatch extends Disposable {
  hear(progress: Progress): void
  /** Aborts when nothing was reported for the heartbeat's time. Never aborts without a heartbeat. */
  readonly silent: AbortSignal
}

export function watchProgress(options: {
  /** Undefined if the request has no heartbeat. */
  heartbeatMs: number | undefined
  clock: Clock
  onProgress: (progress: Progress) => void
}): ProgressWatch {
  const { heartbeatMs, clock, onProgress } = options
  const silent = new AbortController()
  let heardMs = clock.nowMs()
  let toldMs = -Infinity
  let latest: Progress | null = null
  let clearBeat: () => void = () => undefined
  let clearTell: (() => void) | null = null

  const waitForBeat = (ms: number, isOver = false): void => {
    clearBeat = clock.after(ms, () => {
      const leftMs = heardMs + (heartbeatMs ?? 0) - clock.nowMs()
      if (leftMs > 0) waitForBeat(leftMs)
      // First wait one more turn of the event loop: if this process was suspended, reports may be unread.
      else if (!isOver) waitForBeat(0, true)
      else silent.abort()
    })
  }
  const tell = (): void => {
    clearTell?.()
    clearTell = null
    if (latest === null) return
    toldMs = clock.nowMs()
    const now = latest
    latest = null
    onProgress(now)
  }

  if (heartbeatMs !== undefined) waitForBeat(heartbeatMs)
  return {
    silent: silent.signal,
    hear(progress) {
      heardMs = clock.nowMs()
      latest = progress
      const leftMs = toldMs + GAP_MS - heardMs
      if (leftMs <= 0) tell()
      else clearTell ??= clock.after(leftMs, tell)
    },
    [Symbol.dispose]() {
      clearBeat()
      tell()
    },
  }
}
