/** A caller ends a session that any worker can attach to. The session registry is real. */
import {
  executionRequestSchema,
  newExecutionId,
  newSessionId,
  newWorkerId,
  CofferdamError,
  StopReason,
  type AttemptRecord,
  type Backend,
  type SessionName,
} from '@cofferdam/contract'
import { createFakeBackend } from '@cofferdam/backends'
import { testRedis, type TestServer } from '@cofferdam/embedded/testing'
import type { Taken } from '@cofferdam/queue'
import { defaultPolicy } from '@cofferdam/store'
import { createSessionRegistry, type Sessions } from '@cofferdam/sessions'
import { Redis } from 'ioredis'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { processExecution } from '../src/process-execution.ts'
import type { WorkerDeps } from '../src/worker-deps.ts'

let server: TestServer
let redis: Redis
let sessions: Sessions
beforeAll(async () => {
  server = await testRedis()
  redis = new Redis(server.url.replace(/^unix:\/\//, ''))
  sessions = createSessionRegistry({ redis })
})
afterAll(async () => {
  redis.disconnect()
  await server.stop()
})

const workerId = newWorkerId('0123456789ab')
const signal = new AbortController().signal

/** Stores an idle session at a backend that ends sessions with `end`. */
async function stage(end: () => Promise<boolean>) {
  const backendName = `vendor-${randomUUID().slice(0, 8)}`
  const ended: string[] = []
  const backend: Backend = Object.assign(createFakeBackend({}, backendName), {
    endSession: async ({ key }: SessionName) => {
      ended.push(key)
      return await end()
    },
  })
  const name = { tenantId: 'acme', backend: backendName, key: 'main' }
  const sessionId = newSessionId()
  await using lease = await sessions.claim(name, workerId, { waitMs: 0, signal })
  const far = Date.now() + 3_600_000
  await lease.keep({
    sessionId,
    scope: 'files',
    epoch: lease.nextEpoch,
    handle: {},
    createdAtMs: 1,
    usedAtMs: 1,
    idleAtMs: far,
    expiresAtMs: null,
  })
  return { backend, name, sessionId, ended }
}

/** Processes the operation `end` of the session. Returns the record. */
async function askedToEnd(
  backend: Backend,
  tenantDaily: number | null = null,
  registry: Sessions = sessions,
  stop: AbortSignal = signal,
): Promise<AttemptRecord> {
  const settled: AttemptRecord[] = []
  const taken = {
    executionId: newExecutionId(),
    request: executionRequestSchema.parse({
      tenant_id: 'acme',
      agent_id: 'sessions',
      program: { type: 'files', op: 'end' },
      session: { key: 'main' },
      backend: backend.name,
    }),
    attempt: 1,
    enqueuedAtMs: 1000,
    takenAtMs: 2000,
    nowMs: () => 3000,
    traceparent: null,
    lane: 'interactive',
    interrupted: null,
    mayHaveRun: false,
    // No other worker can process the operation.
    route: async () => false,
    signal: stop,
    settle: async (record: AttemptRecord) => void settled.push(record),
  } as unknown as Taken
  const deps = {
    workerId,
    sessions: registry,
    offers: () => [],
    policies: { read: async () => ({ tenant: defaultPolicy('acme'), template: null }) },
    backends: new Map([[backend.name, backend]]),
    admission: { getCaps: async () => ({ tenant_daily: tenantDaily }) },
    store: { record: async () => ({ inserted: true }) },
    metrics: { ended: () => undefined },
    prices: {},
  } as unknown as WorkerDeps
  await processExecution(taken, deps)
  const [record] = settled
  if (record === undefined) throw new Error('nothing was settled')
  return record
}

it('ends the session at its backend without opening it, forgets it, and charges nothing', async () => {
  const { backend, name, sessionId, ended } = await stage(async () => true)
  const { result, audit } = await askedToEnd(backend)
  expect(result).toMatchObject({ ending: 'ok', session: { id: sessionId }, backend: backend.name })
  expect(result.error_message).toBe(undefined)
  expect([audit.quota_charged, audit.backend, ended]).toEqual([false, backend.name, ['main']])
  expect(await sessions.find(name)).toBe(null)
})

it('ends cancelled when the caller cancels it while the session is in use', async () => {
  const { backend, name, ended } = await stage(async () => true)
  const stop = new AbortController()
  await using _turn = await sessions.claim(name, newWorkerId('0123456789ab'), { waitMs: 0, signal })
  const registry: Sessions = {
    ...sessions,
    claim(...asked) {
      const claimed = sessions.claim(...asked)
      stop.abort(new StopReason('cancelled'))
      return claimed
    },
  }
  const { result } = await askedToEnd(backend, null, registry, stop.signal)
  expect([result.ending, ended]).toEqual(['cancelled', []])
})

it('waits until the last turn releases the session', async () => {
  const { backend, name, ended } = await stage(async () => true)
  const lastTurn = await sessions.claim(name, newWorkerId('0123456789ab'), { waitMs: 0, signal })
  const registry: Sessions = {
    ...sessions,
    claim(...asked) {
      const claimed = sessions.claim(...asked)
      // Both commands use one connection, so Redis gets the claim before the release.
      void lastTurn[Symbol.asyncDispose]()
      return claimed
    },
  }
  expect((await askedToEnd(backend, null, registry)).result).toMatchObject({ ending: 'ok' })
  expect([ended, await sessions.find(name)]).toEqual([['main'], null])
})

it('fails with a conflict while another worker uses the session', async () => {
  const { backend, name, ended } = await stage(async () => true)
  await using _held = await sessions.claim(name, newWorkerId('0123456789ab'), { waitMs: 0, signal })
  expect((await askedToEnd(backend)).result).toMatchObject({ ending: 'error', reason: 'conflict' })
  expect(ended).toEqual([])
})

it('keeps the session listed when it may not have ended, and reports the error', async () => {
  const { backend, name } = await stage(async () => {
    throw new CofferdamError('backend_unavailable', 'The vendor is away.')
  })
  expect((await askedToEnd(backend)).result).toMatchObject({
    ending: 'error',
    reason: 'backend_unavailable',
    error_message: 'The vendor is away.',
  })
  expect(await sessions.find(name)).toMatchObject({ key: 'main', holder: null })
})

it('refuses a tenant whose kill switch is on', async () => {
  const { backend, name, ended } = await stage(async () => true)
  expect((await askedToEnd(backend, 0)).result).toMatchObject({
    ending: 'cap_exceeded',
    reason: 'kill_switch',
  })
  expect(ended).toEqual([])
  expect(await sessions.find(name)).not.toBe(null)
})
