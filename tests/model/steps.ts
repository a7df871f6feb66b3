/** Everything that may happen, in any order. A number selects the n-th existing item (modulo their count). */
import type { Lane } from '@cofferdam/queue'
import fc from 'fast-check'

export type Choice = 'on' | 'fail' | 'back' | 'defer' | 'later' | 'retry' | 'route'

export type Step =
  | {
      do: 'put'
      tenant: number
      agent: number
      lane: Lane
      priority: number
      session: number | null
      delayMs: number
      key: number | null
      /** Index into `NEEDS` of world.ts. */
      need: number
    }
  | { do: 'put again' | 'cancel'; execution: number }
  /** A BullMQ job is gone, as after a process that ended without settling. */
  | { do: 'lose job'; lane: Lane; job: number }
  | { do: 'beat' | 'drain' | 'crash' | 'leave'; worker: number }
  /** A worker of the n-th kind joins. */
  | { do: 'join'; kind: number }
  /** Fetches a job and takes its execution. */
  | { do: 'fetch'; worker: number; lane: Lane }
  /** Ends a job and takes the next one in one call, as a slot does. */
  | { do: 'go on'; worker: number; lane: Lane }
  /** Takes an execution that a dead worker had begun. This needs no free slot. */
  | { do: 'recover'; worker: number; lane: Lane }
  | { do: 'hand'; worker: number; lane: Lane; how: 'fair' | 'yield' | 'force' }
  /** The holder makes its next call. `late`: it was stopped between reading the fence and its write. */
  | { do: 'act'; held: number; choice: Choice; late: boolean; outbox: boolean }
  /** Repeats the last write, because its answer was lost or the network delivered it twice. */
  | { do: 'repeat'; held: number }
  | { do: 'lock expires' | 'relock'; held: number }
  | { do: 'stalled check'; lane: Lane }
  /** Locks of dead workers expire and their jobs are found: three steps that only make sense together. */
  | { do: 'redeliver' }
  /** A worker dies, and other workers find its executions. */
  | { do: 'die'; worker: number }
  | { do: 'sweep' }
  | { do: 'limits'; tenant: number; weight: number; concurrency: number | null }
  | { do: 'clock'; ms: number }

const nat = fc.nat(5)
const lane = fc.constantFrom<Lane>('interactive', 'interactive', 'routine')
const record = <T>(weight: number, arbitrary: fc.Arbitrary<T>) => ({ weight, arbitrary })

const stepArb: fc.Arbitrary<Step> = fc.oneof(
  record(
    9,
    fc.record({
      do: fc.constant('put' as const),
      tenant: fc.nat(1),
      agent: fc.nat(1),
      lane,
      priority: fc.nat(2),
      session: fc.option(fc.nat(1), { freq: 2 }),
      delayMs: fc.constantFrom(0, 0, 0, 500),
      key: fc.option(fc.nat(1), { freq: 1 }),
      need: fc.constantFrom(0, 0, 0, 1, 2, 3, 4, 5),
    }),
  ),
  record(
    2,
    fc.record({
      do: fc.constantFrom('put again' as const, 'cancel' as const, 'cancel' as const),
      execution: nat,
    }),
  ),
  record(1, fc.record({ do: fc.constant('lose job' as const), lane, job: nat })),
  record(5, fc.record({ do: fc.constant('beat' as const), worker: nat })),
  record(
    4,
    fc.record({
      do: fc.constantFrom(
        'die' as const,
        'die' as const,
        'drain' as const,
        'crash' as const,
        'leave' as const,
      ),
      worker: nat,
    }),
  ),
  record(
    10,
    fc.record({
      do: fc.constantFrom('fetch' as const, 'go on' as const, 'recover' as const),
      worker: nat,
      lane,
    }),
  ),
  record(
    5,
    fc.record({
      do: fc.constant('hand' as const),
      worker: nat,
      lane,
      how: fc.constantFrom('fair' as const, 'yield' as const, 'force' as const),
    }),
  ),
  record(
    18,
    fc.record({
      do: fc.constant('act' as const),
      held: nat,
      choice: fc.constantFrom<Choice>('on', 'on', 'on', 'fail', 'back', 'defer', 'later', 'retry', 'route'),
      late: fc.constantFrom(false, false, true),
      outbox: fc.constantFrom(false, false, true),
    }),
  ),
  record(3, fc.record({ do: fc.constant('repeat' as const), held: nat })),
  record(
    4,
    fc.record({
      do: fc.constantFrom('lock expires' as const, 'lock expires' as const, 'relock' as const),
      held: nat,
    }),
  ),
  record(5, fc.record({ do: fc.constant('stalled check' as const), lane })),
  record(4, fc.record({ do: fc.constantFrom('sweep' as const, 'redeliver' as const) })),
  record(
    2,
    fc.record({
      do: fc.constant('limits' as const),
      tenant: fc.nat(1),
      weight: fc.integer({ min: 1, max: 3 }),
      concurrency: fc.option(fc.integer({ min: 1, max: 2 }), { freq: 3 }),
    }),
  ),
  // The clock moves by 600 ms, or by more than `lostReleaseMs`, one lock time, three lock times or the
  // longest wait. Or it goes back.
  record(
    5,
    fc.record({
      do: fc.constant('clock' as const),
      ms: fc.constantFrom(600, 600, 4000, 16_000, 50_000, 90_100_000, -5000),
    }),
  ),
)

export const scheduleArb = fc.array(stepArb, { minLength: 20, maxLength: 80, size: 'max' })

/** Steps of a fleet whose workers differ, with more of what changes its kinds. */
const mixedStepArb: fc.Arbitrary<Step> = fc.oneof(
  record(6, fc.record({ do: fc.constant('join' as const), kind: nat })),
  record(
    6,
    fc.record({
      do: fc.constantFrom('die' as const, 'crash' as const, 'drain' as const, 'leave' as const),
      worker: nat,
    }),
  ),
  record(6, fc.record({ do: fc.constant('beat' as const), worker: nat })),
  // Time without heartbeats, shorter or longer than `kindPatienceMs`, for which a kind without workers stays
  // known.
  record(3, fc.record({ do: fc.constant('clock' as const), ms: fc.constantFrom(4000, 16_000, 61_000) })),
  record(
    12,
    fc.record({
      do: fc.constant('put' as const),
      tenant: fc.nat(1),
      agent: fc.nat(1),
      lane,
      priority: fc.constant(0),
      session: fc.option(fc.nat(1), { freq: 1 }),
      delayMs: fc.constant(0),
      key: fc.constant(null),
      need: fc.nat(6),
    }),
  ),
  record(20, stepArb),
)

export const mixedFleetArb = fc.array(mixedStepArb, { minLength: 20, maxLength: 60, size: 'max' })
