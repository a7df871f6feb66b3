/**
 * Backends whose vendor says that it has no room: an execution waits for it as it waits for a free lease, for it says nothing against the
 * program or the backend. Where nothing was opened for FULL_MAX_MS, it is no queue that moves, and the attempt ends.
 */
import type { Clock } from './clock.ts'

/** Longer than most programs run; shorter than what nobody would notice. */
export const FULL_MAX_MS = 3_600_000

export interface FullBackends {
  /** It had no room just now. False when that has been so for too long. */
  foundFull(backend: string): boolean
  opened(backend: string): void
}

/** Creates the memory of one executor. */
export function createFullBackends(clock: Clock): FullBackends {
  const since = new Map<string, number>()
  return {
    foundFull(backend) {
      const nowMs = clock.nowMs()
      const fullSinceMs = since.get(backend) ?? nowMs
      since.set(backend, fullSinceMs)
      return nowMs - fullSinceMs < FULL_MAX_MS
    },
    opened: (backend) => void since.delete(backend),
  }
}
