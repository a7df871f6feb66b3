/** Set-up of routine tests: private Redis and Postgres, and a worker that runs no programs. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  composeAttempt,
  newSandboxId,
  newWorkerId,
  outcomeWithoutRun,
  routineInputSchema,
  StopReason,
  type Ending,
  type RoutineId,
} from '@cofferdam/contract'
import { isolatedRedis } from '@cofferdam/embedded/testing'
import { connectRedis, createConsumer, createProducer, type Producer, type Taken } from '@cofferdam/queue'
import { createStore, type Store, type StoredRoutine } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS } from '@cofferdam/store/testing'
import type { Redis } from 'ioredis'

export interface Stage extends AsyncDisposable {
  redis: Redis
  stopRedis(): Promise<void>
  store: Store
  producer: Producer
  connect(role: 'producer' | 'worker' | 'subscriber'): Redis
  /** A worker. The source `wait` runs until it is cancelled, every other source ends at once. */
  work(options?: { slots?: number; sweepMs?: number; onTaken?: (taken: Taken) => void }): AsyncDisposable
  routine(extra?: object, source?: string): Promise<StoredRoutine>
}

/** Creates the tenants acme and globex. */
export async function openStage(): Promise<Stage> {
  await using owned = new AsyncDisposableStack()
  const dir = owned.adopt(await mkdtemp(join(tmpdir(), 'cofferdam-routines-')), (path) =>
    rm(path, { recursive: true, force: true }),
  )
  const [server, database] = await Promise.all([isolatedRedis(), createTestDatabase()])
  owned.defer(() => server.stop())
  owned.defer(() => database.drop())
  const connect = (role: 'producer' | 'worker' | 'subscriber'): Redis =>
    owned.adopt(connectRedis(server.url, role), (redis) => redis.disconnect())
  const store = owned.use(
    await createStore({ databaseUrl: database.url, blobDir: join(dir, 'blobs'), timeouts: PATIENT_TIMEOUTS }),
  )
  for (const tenant of ['acme', 'globex']) await store.tenants.create({ tenant_id: tenant }, 'test')
  const redis = connect('worker')
  const producer = owned.use(
    createProducer({ redis: connect('producer'), subscriber: connect('subscriber') }),
  )
  const kept = owned.move()
  return {
    redis,
    stopRedis: () => server.stop(),
    store,
    producer,
    connect: (role) => kept.adopt(connectRedis(server.url, role), (one) => one.disconnect()),
    work({ slots = 4, sweepMs = 100, onTaken } = {}) {
      const consumer = kept.use(
        createConsumer({
          redis: kept.adopt(connectRedis(server.url, 'worker'), (one) => one.disconnect()),
          subscriber: kept.adopt(connectRedis(server.url, 'subscriber'), (one) => one.disconnect()),
          workerId: newWorkerId('0123456789ab'),
          slots,
          lanes: ['interactive', 'routine'],
          process: async (taken) => {
            onTaken?.(taken)
            await end(taken, store)
          },
          onOutbox: async (records) => {
            for (const record of records) await store.record(record)
          },
          sweepMs,
        }),
      )
      consumer.start()
      return consumer
    },
    routine: (extra = {}, source = 'print(1)') =>
      store.routines.create(
        routineInputSchema.parse({
          name: 'nightly',
          request: {
            tenant_id: 'acme',
            agent_id: 'agent-1',
            program: { type: 'script', language: 'python', source },
          },
          ...extra,
        }),
        'test',
      ),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

async function end(taken: Taken, store: Store): Promise<void> {
  const source = taken.request.program.type === 'script' ? taken.request.program.source : ''
  let ending: Ending = 'ok'
  try {
    await taken.begin(
      { backend: 'fake', id: newSandboxId(), handle: {} },
      { backend: 'fake', isolation: 'none' },
    )
    if (source === 'wait') {
      if (!taken.signal.aborted)
        await new Promise((resolve) => taken.signal.addEventListener('abort', resolve, { once: true }))
      ending = 'cancelled'
    }
  } catch (error) {
    if (!(error instanceof StopReason)) throw error
    ending = 'cancelled'
  }
  const nowMs = Date.now()
  const record = composeAttempt({
    executionId: taken.executionId,
    attempt: taken.attempt,
    request: taken.request,
    outcome: {
      ...outcomeWithoutRun(ending, 'test', 'test'),
      stdout: { text: `${source}\n`, bytes: source.length + 1, truncated: false, ref: null },
    },
    enqueuedAtMs: taken.enqueuedAtMs,
    startedAtMs: nowMs,
    finishedAtMs: nowMs,
    traceId: null,
    retentionDays: 30,
    caps: null,
    chargedAtMs: null,
  })
  await store.record(record)
  await taken.settle(record, { slotMs: 1 })
}

/** Polls until `look` returns something. On a timeout, fails with `what`. */
export async function until<T>(what: string, look: () => Promise<T | null | undefined | false>): Promise<T> {
  const deadline = Date.now() + 40_000
  for (;;) {
    const seen = await look()
    if (seen !== null && seen !== undefined && seen !== false) return seen
    if (Date.now() > deadline) throw new Error(`waited 40 s for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** The runs of a routine, the oldest first. */
export const runsOf = async (stage: Stage, id: RoutineId) =>
  (await stage.store.routines.runs(null, id, 200)).toReversed()
