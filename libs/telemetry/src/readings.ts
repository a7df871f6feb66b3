/** What the instruments are told: readings of the fleet and of one process, and events of warm slots. */

export interface QueueReading {
  queued: number
  delayed: number
  running: number
  /** Age of the oldest queued execution, or null. */
  oldest_age_ms: number | null
  /** Executions that may be outstanding at once. */
  window: number
}

/** What there is to do for one group of workers in one lane. */
export interface GroupReading {
  group: string
  lane: string
  waiting: number
  running: number
  /** Null when nothing waits. */
  oldest_age_ms: number | null
}

/** The whole fleet, as read from Redis. */
export interface FleetReading {
  lanes: Readonly<Record<string, QueueReading>>
  groups: readonly GroupReading[]
  workers: readonly { slots: number; running: number; last_seen_ms: number }[]
  outbox: number
  /** Faults that the last check of the audit tables found. Null before the first check. */
  auditFaults: number | null
  callbacks: { due: number; retrying: number }
  /** A worker whose last heartbeat is older than this has lost its executions. */
  lockMs: number
}

export interface WorkerReading {
  busy: number
  total: number
  /** Time since the last heartbeat that Redis accepted. Null before the first. */
  beatAgeMs: number | null
}

/** One pool of a dispatcher. */
export interface DispatcherPoolReading {
  pool: string
  spareTarget: number
  sessions: number
  /** Work items that wait to be claimed. Null if the number is unknown. */
  depth: number | null
}

/** What happened to a warm slot, as the backends report it. */
export type SlotEvent =
  | { type: 'taken'; backend: string; warm: boolean }
  | { type: 'warmed'; backend: string; ms: number }
  | { type: 'warm_failed'; backend: string }
  | { type: 'dropped'; backend: string; why: string }

export interface MemoryReading {
  usedBytes: number
  limitBytes: number
  waiting: number
}
