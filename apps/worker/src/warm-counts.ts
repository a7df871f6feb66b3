/** Counts how sandboxes started, warm or cold, for the report of each backend. */
import type { WarmEvent } from '@cofferdam/backends'

/** Starts of one backend since the worker's start. Names as on the wire. */
export interface StartCounts {
  /** Executions that got a sandbox that was already running. The cell of a session counts too. */
  taken_warm: number
  /** Executions that waited until their sandbox had started. */
  taken_cold: number
  /** Warm starts that failed. */
  warm_failed: number
}

export interface WarmCounts {
  note(event: WarmEvent): void
  /** Null if nothing has started on the backend yet. */
  of(backend: string): StartCounts | null
}

export function createWarmCounts(): WarmCounts {
  // Bounded by the number of configured backends.
  const counts = new Map<string, StartCounts>()
  return {
    note(event) {
      if (event.type !== 'taken' && event.type !== 'warm_failed') return
      const count = counts.get(event.backend) ?? { taken_warm: 0, taken_cold: 0, warm_failed: 0 }
      if (event.type === 'warm_failed') count.warm_failed += 1
      else if (event.warm) count.taken_warm += 1
      else count.taken_cold += 1
      counts.set(event.backend, count)
    },
    of: (backend) => counts.get(backend) ?? null,
  }
}
