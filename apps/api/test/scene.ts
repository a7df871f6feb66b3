/**
 * The API over a real Redis and Postgres. A consumer in this process acts as the worker: it runs no program
 * and ends each execution as the program's source says.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Admission, createAdmission } from '@cofferdam/admission'
import {
  type AttemptRecord,
  composeAttempt,
  errorBodySchema,
  newSandboxId,
  newWorkerId,
  type Outcome,
  outcomeWithoutRun,
  StopReason,
} from '@cofferdam/contract'
import { isolatedRedis } from '@cofferdam/embedded/testing'
import { connectRedis, createConsumer, createProducer, type Producer, type Taken } from '@cofferdam/queue'
import { createStore, type OutputKey, type Store } from '@cofferdam/store'
import { createTestDatabase, PATIENT_TIMEOUTS } from '@cofferdam/store/testing'
import type { FastifyInstance, InjectOptions } from 'fastify'
import type { Redis } from 'ioredis'
import { expect } from 'vitest'
import { type ApiDeps, type ApiLimits, createApi } from '../src/index.ts'
import { createReasonRedactor } from '../src/redaction.ts'

export interface Answer {
  status: number
  headers: Record<string, unknown>
  // Tests read whatever an answer contains, so it has no type.
  // oxlint-disable-next-line typescript/no-explicit-any
  json: any
  text: string
}

export interface Scene extends AsyncDisposable {
  app: FastifyInstance
  redis: Redis
  producer: Producer
  store: Store
  admission: Admission
  /** Authorization headers. */
  admin: { authorization: string }
  acme: { authorization: string }
  globex: { authorization: string }
  /** Injects a request, as admin unless it has its own authorization. Checks the shape of every error. */
  call(options: InjectOptions): Promise<Answer>
  /** Another server over the same stores. */
  another(
    limits?: Partial<ApiLimits>,
    deps?: Partial<ApiDeps>,
    buildMcp?: Parameters<typeof createApi>[1],
  ): Promise<FastifyInstance>
  stopRedis(): Promise<void>
}

/** The session ID that the scene's worker reports for every session. */
export const SCENE_SESSION = `ses_${'5'.repeat(32)}`

/** A request for the scene's worker, which acts on `source`. See `behave`. */
export const execution = (source: string, extra: object = {}): Record<string, unknown> => ({
  tenant_id: 'acme',
  agent_id: 'agent-1',
  program: { type: 'script', language: 'python', source },
  ...extra,
})

/** Starts everything. The tenants acme and globex exist and have one key each. */
export async function openScene(
  limits: Partial<ApiLimits> = {},
  outputKeys: readonly OutputKey[] = [],
): Promise<Scene> {
  await using owned = new AsyncDisposableStack()
  const dataDir = owned.adopt(await mkdtemp(join(tmpdir(), 'cofferdam-api-')), (dir) =>
    rm(dir, { recursive: true, force: true }),
  )
  const [server, database] = await Promise.all([isolatedRedis(), createTestDatabase()])
  owned.defer(() => server.stop())
  owned.defer(() => database.drop())
  const connect = (role: 'producer' | 'worker' | 'subscriber'): Redis =>
    owned.adopt(connectRedis(server.url, role), async (redis) => redis.disconnect())
  const redis = connect('producer')
  const subscriber = connect('subscriber')
  const store = owned.use(
    await createStore({
      databaseUrl: database.url,
      blobDir: join(dataDir, 'blobs'),
      timeouts: PATIENT_TIMEOUTS,
      outputKeys,
    }),
  )
  const producer = owned.use(
    createProducer({ redis, subscriber, redactReason: createReasonRedactor(store.tenants) }),
  )
  const admission = createAdmission({
    redis,
    countCharged: (tenantId, atMs) => store.chargedCounts(tenantId, atMs),
  })
  const consumer = owned.use(
    createConsumer({
      redis: connect('worker'),
      subscriber,
      workerId: newWorkerId('0123456789ab'),
      slots: 4,
      lanes: ['interactive', 'routine'],
      process: (taken) => behave(taken, store),
      onOutbox: async (records) => {
        for (const record of records) await store.record(record)
      },
      onLost: async () => undefined,
    }),
  )
  consumer.start()

  for (const tenant of ['acme', 'globex']) await store.tenants.create({ tenant_id: tenant }, 'test')
  const keyOf = async (scope: 'admin' | { tenant_id: string }) => ({
    authorization: `Bearer ${(await store.keys.create(scope, 'test')).key}`,
  })
  const admin = await keyOf('admin')
  const deps: ApiDeps = {
    producer,
    store,
    admission,
    redis,
    metrics: async () => ({ contentType: 'text/plain; version=0.0.4', body: 'up 1\n' }),
    limits: { heartbeatMs: 50, ...limits },
  }
  const app = owned.adopt(await createApi(deps), (api) => api.close())
  const parts = {
    app,
    redis,
    producer,
    store,
    admission,
    admin,
    acme: await keyOf({ tenant_id: 'acme' }),
    globex: await keyOf({ tenant_id: 'globex' }),
    async stopRedis() {
      // Stop the worker first: it would wait for Redis while it closes.
      await consumer[Symbol.asyncDispose]()
      await server.stop()
    },
  }
  const kept = owned.move()
  return {
    ...parts,
    async call(options) {
      const reply = await app.inject({
        ...options,
        headers: { ...admin, ...options.headers },
      } as InjectOptions)
      const isJson = String(reply.headers['content-type']).startsWith('application/json')
      const json: unknown = isJson ? reply.json() : undefined
      if (reply.statusCode >= 400) expectErrorShape(reply.statusCode, json, reply.headers)
      return { status: reply.statusCode, headers: reply.headers, json, text: reply.body }
    },
    async another(more = {}, other = {}, buildMcp) {
      const api = await createApi({ ...deps, ...other, limits: { ...deps.limits, ...more } }, buildMcp)
      return kept.adopt(api, (one) => one.close())
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** Checks that a failure has the contract's shape, a trace ID that is also in the header, and no stack. */
export function expectErrorShape(status: number, json: unknown, headers: Record<string, unknown>): void {
  const { error } = errorBodySchema.parse(json)
  expect(status).toBeGreaterThanOrEqual(400)
  expect(error.trace_id).toMatch(/^[0-9a-f]{32}$/)
  expect(headers['x-trace-id']).toBe(error.trace_id)
  expect(JSON.stringify(json)).not.toMatch(
    /node_modules|\.ts:\d|\bat \w+ \(|select .* from|ioredis|ECONN|ENOENT/i,
  )
}

/**
 * The worker. The source `wait` runs until it is cancelled, `seconds N` for that long at most, `fail` ends
 * with exit code 3, `lost` as if the sandbox was lost, and `big` leaves a large output and an artifact in the
 * blob store. Every other source is printed.
 */
async function behave(taken: Taken, store: Store): Promise<void> {
  const source = taken.request.program.type === 'script' ? taken.request.program.source : ''
  const startedAtMs = Date.now()
  const outcome = await outcomeOf(taken, source, store)
  const record: AttemptRecord = composeAttempt({
    executionId: taken.executionId,
    attempt: taken.attempt,
    request: taken.request,
    outcome,
    enqueuedAtMs: taken.enqueuedAtMs,
    startedAtMs,
    finishedAtMs: Date.now(),
    traceId: taken.traceparent?.slice(3, 35) ?? null,
    retentionDays: 30,
    caps: null,
    chargedAtMs: null,
  })
  await store.record(record)
  await taken.settle(record, { slotMs: 1 })
}

async function outcomeOf(taken: Taken, source: string, store: Store): Promise<Outcome> {
  try {
    const ref = { backend: 'fake', id: newSandboxId(), handle: {} }
    const session = taken.request.session === undefined ? {} : { sessionId: SCENE_SESSION }
    await taken.begin(ref, { backend: 'fake', isolation: 'none', ...session })
  } catch (error) {
    if (!(error instanceof StopReason)) throw error
    return outcomeWithoutRun('cancelled', 'cancelled', 'cancelled before it began')
  }
  taken.emit({ type: 'output', at_ms: Date.now(), stream: 'stdout', text: `${source}\n` })
  const ran: Outcome = {
    ...outcomeWithoutRun('ok', '', ''),
    exitCode: 0,
    began: true,
    backend: 'fake',
    isolation: 'none',
    reason: null,
    failureReason: null,
    stdout: { text: `${source}\n`, bytes: source.length + 1, truncated: false, ref: null },
  }
  if (source === 'lost') {
    await pause(500)
    return { ...ran, ending: 'sandbox_lost', exitCode: null, failureReason: 'sandbox lost', reason: 'lost' }
  }
  if (source === 'fail')
    return { ...ran, ending: 'error', exitCode: 3, failureReason: 'exit code 3', reason: 'exit' }
  const [, seconds = '0'] = /^seconds (\d+)$/.exec(source) ?? []
  if (source === 'wait' || seconds !== '0') {
    const limitMs = source === 'wait' ? 2 ** 31 - 1 : Number(seconds) * 1000
    await pause(limitMs, undefined, { signal: taken.signal }).catch(() => undefined)
    if (!taken.signal.aborted) return ran
    return { ...ran, ending: 'cancelled', exitCode: null, failureReason: 'cancelled', reason: 'cancelled' }
  }
  if (source !== 'big') return ran
  const full = 'é'.repeat(500_000)
  const stdout = { text: full.slice(0, 100), bytes: 1_000_000, truncated: true }
  return {
    ...ran,
    stdout: { ...stdout, ref: await keep(taken, store, 'stdout', full) },
    artifacts: [
      {
        path: 'out/näme.bin',
        size: 4,
        sha256: 'a'.repeat(64),
        ref: await keep(taken, store, 'artifacts/out/näme.bin', 'data'),
      },
    ],
  }
}

async function keep(taken: Taken, store: Store, name: string, text: string): Promise<string> {
  const { executionId, attempt, request } = taken
  const sink = await store.blobs.create({
    tenantId: request.tenant_id,
    executionId,
    attempt,
    name,
    encrypt: false,
  })
  await sink.write(Buffer.from(text))
  return sink.commit()
}
