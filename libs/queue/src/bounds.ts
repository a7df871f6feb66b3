/** Every bound and period of the queue in one place, with its reason. Milliseconds unless the name says otherwise. */
import { BOUNDS, FLEET_DEFAULTS } from '@cofferdam/contract'

/** Sources and files above this are stored once and referenced by SHA-256: 64 KiB inline costs eight times the CPU. */
const INLINE_BYTES = 16_384

export const QUEUE_BOUNDS = {
  /** How long an ended execution stays readable in Redis; afterwards Postgres has it. */
  endedTtlMs: 3_600_000,
  /** How long an idempotency key is remembered (DESIGN §7). */
  idempotencyTtlMs: 24 * 3_600_000,
  /**
   * Large parts of requests. Longest life of an execution: `delay_ms` (24 h), waiting (24 h), running (24 h);
   * refreshed at put and at each take, so one day more than delay and waiting together is enough.
   */
  blobTtlMs: 3 * BOUNDS.queueWaitMs,
  /** A request whose small parts together exceed this is stored as one blob, so that records stay small. */
  recordBytes: 4 * INLINE_BYTES,
  inlineBytes: INLINE_BYTES,
  /** Waiter sets outlive the longest wait they can serve, then go by themselves. */
  waiterTtlMs: 3 * BOUNDS.queueWaitMs,
  /** State of a tenant with nothing queued or running: long enough to remember its virtual time. */
  idleTenantTtlMs: 3_600_000,
  /**
   * How long the owner of a session is remembered after its last execution: the longest idle time that a session may
   * have (an hour), and a minute for the end of the sandbox. Longer than its cell lives, it only costs affinity.
   */
  sessionTtlMs: 3_660_000,
  /** Results below this ride in the reply message; larger ones are fetched by whoever waits. */
  inlineReplyBytes: 16 * 1024,
  /** Entries of one live stream. */
  eventEntries: 2000,
  /**
   * Bytes of one live stream, encoded: all that a result can show (`stdout_bytes` and `stderr_bytes` are 4 MiB at most). Output goes on
   * above those, and JSON makes six bytes of a control character, so entries alone would let one execution take 190 MiB for an hour.
   */
  eventStreamBytes: 8 * 1024 * 1024,
  /** Entries of earlier attempts that stay when these have more than half of that. */
  earlierEvents: 32,
  /** Bytes of one output entry. */
  eventBytes: 16 * 1024,
  /** Entries of one append: at most half a MiB of output is encoded at a time. */
  eventCall: 32,
  /** Output waiting to be appended, per execution; reached only when Redis is away. */
  eventBufferBytes: 4 * 1024 * 1024,
  /** How long output is collected before it is appended: below what a reader notices. */
  eventFlushMs: 20,
  /** Of the 40 hex digits of a server's run id: they tell its lives apart, and cost a waiting execution little. */
  lifeDigits: 8,
  /** Fences that a server may have given out and lost: far more than deliveries and attempts of one second. */
  lostFences: 1000,
  /** Executions released by one script call: keeps the longest script below about 20 ms. */
  pickMax: 128,
  /** Delayed executions or parked tenants promoted by one script call. */
  promoteMax: 100,
  /** Outstanding executions checked by one sweep (a cursor walks over the rest). */
  sweepMax: 500,
  /** A released execution unknown to BullMQ for this long has lost its add. */
  lostReleaseMs: 3000,
  /** An execution that was taken this often without ending kills its workers: it is ended. */
  deliveriesMax: 10,
  /** Seconds that the first execution of a lane is charged before anything was measured; a small one takes this long. */
  firstEstimateSeconds: 0.1,
  /** Runs that the average behind an ETA covers: with lengths of 1, 20 and 200 ms mixed it is then right within a fifth. */
  averageRuns: 100,
  /** Other tenants that one forecast looks at: 16 cost about 30 µs. */
  rivalsMax: 16,
  /** Run-queue priority of a tenant's next execution is its outstanding count, up to this. */
  priorityMax: 1000,
  /** Released per slot: a quarter more than can run, so that a freed slot never waits for a round trip. */
  windowFactor: 1.25,
  /** BullMQ's event stream, which nobody reads: 100 is its smallest trimming unit. */
  bullEvents: 100,
  /**
   * How long an execution waits for a worker that can serve it after the last such worker left or fell
   * silent; then it is refused. A restart of a worker, with its drain of 30 s, takes less.
   */
  kindPatienceMs: 60_000,
  /**
   * A tenant whose runs take this long on the average leaves a quarter of the slots to others. Shorter ones
   * make room for a newcomer within a run, and may use the whole fleet.
   */
  longRunSeconds: 1,
  /** Needs whose servers are remembered: what callers ask for in all combinations is bounded only here. */
  needsMax: 1000,
  /** Records handed to `onOutbox` at once: at most 20 × (stdout + stderr bounds) in memory. */
  outboxBatch: 20,
  /** How long a fenced write is retried while Redis is away. */
  writePatienceMs: 60_000,
  /** How long a producer's call waits for a connection before `queue_unavailable`. */
  connectPatienceMs: 2000,
  /** Waiters ask again this often, so a lost reply message only costs time. */
  recheckMs: 3000,
  /** Answers kept for a `wait` that has not been called yet: at most 1,000 × 16 KiB. Beyond, `wait` asks again. */
  unclaimedReplies: 1000,
  /**
   * An execution that has been in its backlog for longer than this is ended. One hour more than what callers are
   * promised, so that a tenant parked until midnight is not ended by the jitter of its return.
   */
  overdueMs: BOUNDS.queueWaitMs + 3_600_000,
} as const

/** What a tenant without own limits gets. */
export const TENANT_DEFAULTS = {
  weight: 1,
  concurrency: FLEET_DEFAULTS.concurrency,
  maxQueued: FLEET_DEFAULTS.max_queued,
} as const

/**
 * How long a worker may be silent. Renewed every third of it; what a dead worker held is found at the latest a third
 * after it ran out, so that lost executions end within 15 s (9 + 3, and time to end them). Two renewals may fail.
 */
export const LOCK_MS = 9000
export const SWEEP_MS = 1000
