/** Every bound and period of the queue, with its reason. In milliseconds unless the name says otherwise. */
import { BOUNDS, FLEET_DEFAULTS } from '@cofferdam/contract'

/**
 * Larger sources and files are stored once, by SHA-256. Inline, 64 KiB cost eight times the CPU per enqueue
 * (measured).
 */
const INLINE_BYTES = 16_384

export const QUEUE_BOUNDS = {
  /** How long an ended execution stays readable in Redis. After that, only Postgres has it. */
  endedTtlMs: 3_600_000,
  /** How long an idempotency key is kept. */
  idempotencyTtlMs: 24 * 3_600_000,
  /**
   * How long Redis keeps the large parts of an accepted request: 72 h. The put and each take start this time
   * anew. Until the next take, an execution runs, is delayed and waits, for at most 24 h each.
   */
  blobTtlMs: 3 * BOUNDS.queueWaitMs,
  /**
   * Large parts of a request that is not accepted yet. A put stores them and enqueues within the timeouts of
   * a producer's commands (5 s each, connect.ts) and `connectPatienceMs`. If that takes longer, it stores
   * them again. So a part that expires too early costs time but is never lost.
   */
  unacceptedBlobTtlMs: 60_000,
  /**
   * How often a put tries to store its large parts. A part that another call stored can expire before the
   * enqueue, or disappear because that call was refused. On the next try this put stores the part itself, so
   * more than two tries are rare.
   */
  blobAttempts: 5,
  /** A request whose small parts together exceed this is stored as one blob, so that records stay small. */
  recordBytes: 4 * INLINE_BYTES,
  inlineBytes: INLINE_BYTES,
  /** Waiter sets live longer than the longest wait that they can serve. */
  waiterTtlMs: 3 * BOUNDS.queueWaitMs,
  /** How long the virtual time of a tenant with nothing queued or running is kept. */
  idleTenantTtlMs: 3_600_000,
  /**
   * How long the owner of a session is kept after its last execution: the longest idle time of a session (an
   * hour), and a minute for the end of its sandbox. A stale entry only costs affinity.
   */
  sessionTtlMs: 3_660_000,
  /** Smaller results are part of the reply message. A waiter fetches larger ones. */
  inlineReplyBytes: 16 * 1024,
  /** Entries of one live stream. */
  eventEntries: 2000,
  /**
   * Encoded bytes of one live stream: all that a result can show (`stdout_bytes` and `stderr_bytes` are at
   * most 4 MiB). Without this bound, one execution could use 190 MiB for an hour, because output continues
   * beyond those limits and JSON writes a control character with six bytes.
   */
  eventStreamBytes: 8 * 1024 * 1024,
  /** How many entries of earlier attempts are kept if these exceed half of `eventStreamBytes`. */
  earlierEvents: 32,
  /** Bytes of one output entry. */
  eventBytes: 16 * 1024,
  /** Entries of one append, so that at most half a MiB of output is encoded at a time. */
  eventCall: 32,
  /** Output that waits to be appended, per execution. Reached only while Redis is away. */
  eventBufferBytes: 4 * 1024 * 1024,
  /**
   * A program is held back while more output than this is pending. This is enough for two appends, so that
   * the second is ready when Redis has done the first.
   */
  eventHoldBytes: 1024 * 1024,
  /** How long a program is held back before Redis counts as away. */
  eventHoldMs: 2000,
  /** How long output is collected before it is appended: too short for a reader to notice. */
  eventFlushMs: 20,
  /** Digits kept of the 40 of a server's run ID. They distinguish restarts and need little memory. */
  runIdDigits: 8,
  /** Fences that a server may have issued and lost in a crash: far more than an execution uses in 1 s. */
  lostFences: 1000,
  /** Executions released by one script call: keeps the longest script below about 20 ms. */
  pickMax: 128,
  /** Delayed executions or parked tenants promoted by one script call. */
  promoteMax: 100,
  /** Outstanding executions of a lane that one sweep checks. A cursor covers the rest in later sweeps. */
  sweepMax: 500,
  /** A released execution without a BullMQ job for this long gets a new job. */
  lostReleaseMs: 3000,
  /** An execution that was taken this often without an ending is ended: it probably kills its workers. */
  deliveriesMax: 10,
  /** Seconds that a run is assumed to take while no run of its lane was measured. */
  firstEstimateSeconds: 0.1,
  /** Runs in the average behind an ETA. With a mix of 1, 20 and 200 ms it is then correct within a fifth. */
  averageRuns: 100,
  /** Other tenants that one forecast looks at: 16 cost about 30 µs. */
  rivalsMax: 16,
  /** Delayed executions of a tenant that are passed over in search of its oldest waiting one. */
  lookPast: 100,
  /** The run-queue priority of an execution is its tenant's outstanding count, up to this. */
  priorityMax: 1000,
  /**
   * Executions released per slot: a quarter more than can run, so that a freed slot needs no extra round
   * trip.
   */
  windowFactor: 1.25,
  /** Entries kept of BullMQ's event stream. Nobody reads it, and 100 is its smallest trimming unit. */
  bullEvents: 100,
  /**
   * How long an execution waits for a worker that can serve it after the last such worker left or fell
   * silent. Then it is refused. A restart of a worker takes less, including its drain (25 s by default).
   */
  kindPatienceMs: 60_000,
  /**
   * A tenant whose average run takes this long leaves a quarter of the slots to others. A tenant with shorter
   * runs may use the whole fleet, because others get a slot within one run.
   */
  longRunSeconds: 1,
  /** Agents of a tenant that are read to see what waits for a kind of worker (demand.lua). */
  demandAgents: 16,
  /** Needs whose serving kinds are cached. Nothing else bounds the combinations that callers ask for. */
  needsMax: 1000,
  /** Records passed to `onOutbox` at once: at most 20 × (stdout + stderr bounds) in memory. */
  outboxBatch: 20,
  /** How long a fenced write is retried while Redis is away. */
  writePatienceMs: 60_000,
  /** How long a producer's call waits for a connection before `queue_unavailable`. */
  connectPatienceMs: 2000,
  /** Waiters ask again this often, so that a lost reply message only costs time. */
  recheckMs: 3000,
  /** Answers kept for a later `wait`: at most 1,000 × 16 KiB. For the others, `wait` asks again. */
  unclaimedReplies: 1000,
  /**
   * An execution that has been in its backlog for longer than this is ended. That is an hour more than
   * callers are promised. A tenant that is parked until midnight returns with some jitter, which must not end
   * its executions.
   */
  overdueMs: BOUNDS.queueWaitMs + 3_600_000,
} as const

/** Limits of a tenant without limits of its own. */
export const TENANT_DEFAULTS = {
  weight: 1,
  concurrency: FLEET_DEFAULTS.concurrency,
  maxQueued: FLEET_DEFAULTS.max_queued,
} as const

/**
 * How long a worker may be silent. It renews locks every third of this, so two renewals may fail. BullMQ
 * finds an expired lock within another third, so lost executions end within 15 s (9 + 3 + the time to end
 * them).
 */
export const LOCK_MS = 9000
export const SWEEP_MS = 1000
