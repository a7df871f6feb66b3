/** What is killed when an execution's owner vanished: real registry, a backend that remembers. */
import {
  executionRequestSchema,
  newExecutionId,
  newSandboxId,
  newSessionId,
  newWorkerId,
  type Backend,
  type ExecutionId,
  type WorkerId,
} from '@cofferdam/contract'
import { createFakeBackend } from '@cofferdam/backends'
import { testRedis, type TestServer } from '@cofferdam/embedded/testing'
import { createSessionRegistry, type Sessions } from '@cofferdam/sessions'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { killLeftSandbox } from '../src/kill-left-sandbox.ts'

let server: TestServer
let redis: Redis
let sessions: Sessions
beforeAll(async () => {
  server = await testRedis()
  redis = new Redis(server.url.replace(/^unix:\/\//, ''))
  // No renewal falls into a test: a lease ends where a test gives it back.
  sessions = createSessionRegistry({ redis, leaseMs: 3_600_000 })
})
afterAll(async () => {
  redis.disconnect()
  await server.stop()
})

const self = newWorkerId('0123456789ab')
const vanished = newWorkerId('0123456789ab')
const executionId = newExecutionId()
const signal = new AbortController().signal
const ref = { backend: 'vendor', id: newSandboxId(), handle: { claim: 'c' } }

/** Takes the session of this key, which has a sandbox then, and writes whose turn it is (null: it rests). */
async function hold(key: string, holder: WorkerId, turn: ExecutionId | null = executionId) {
  const name = { tenantId: 'acme', backend: 'vendor', key }
  const lease = await sessions.claim(name, holder, { waitMs: 0, signal })
  await lease.keep({
    sessionId: newSessionId(),
    scope: 'files',
    epoch: lease.nextEpoch,
    handle: { claim: 'c' },
    createdAtMs: 1,
    usedAtMs: 1,
    idleAtMs: Date.now() + 3_600_000,
    expiresAtMs: null,
    ...(turn === null ? {} : { turn }),
  })
  return lease
}

/** True when the sandbox was killed; `while_` sees the session at that moment. */
async function isKilled(
  key: string | null,
  while_: () => Promise<void> = async () => {},
  mark: { ownSandbox?: boolean } = {},
): Promise<boolean> {
  let killed = false
  const backend: Backend = Object.assign(createFakeBackend({}, 'vendor'), {
    kill: async () => {
      await while_()
      return (killed = true)
    },
  })
  const request = executionRequestSchema.parse({
    tenant_id: 'acme',
    agent_id: 'a',
    program: { type: 'script', language: 'python', source: '1' },
    ...(key === null ? {} : { session: { key, scope: 'files' } }),
  })
  const backends = new Map([['vendor', backend]])
  await killLeftSandbox(
    { executionId, request, signal },
    { ref, worker: vanished, ...mark },
    { backends, sessions, workerId: self },
  )
  return killed
}

it('is its own sandbox, whether it was of no session or of one that is known no more', async () => {
  expect([await isKilled(null), await isKilled('never-kept')]).toEqual([true, true])
})

it('is the sandbox of its own in which it ran outside of its session, whatever goes on there', async () => {
  await using _turn = await hold('left', newWorkerId('0123456789ab'), newExecutionId())
  expect([await isKilled('left'), await isKilled('left', undefined, { ownSandbox: true })]).toEqual([
    false,
    true,
  ])
})

it('is a session that the vanished owner still holds in its turn', async () => {
  await using _lease = await hold('theirs', vanished)
  expect(await isKilled('theirs')).toBe(true)
})

it('is not a session in which another worker has a turn, nor one that another holds to end it', async () => {
  const other = newWorkerId('0123456789ab')
  await using _turn = await hold('taken', other, newExecutionId())
  await using _claimed = await hold('found', other)
  expect([await isKilled('taken'), await isKilled('found')]).toEqual([false, false])
})

it('is not a session that rests: its turn had ended, and what it keeps stays', async () => {
  await (await hold('rests', vanished, null))[Symbol.asyncDispose]()
  await using _held = await hold('rests-held', vanished, null)
  expect([await isKilled('rests'), await isKilled('rests-held')]).toEqual([false, false])
})

it('is not a session that nobody holds, in which another turn never ended', async () => {
  await (await hold('other', vanished, newExecutionId()))[Symbol.asyncDispose]()
  expect(await isKilled('other')).toBe(false)
})

it('is not a session that its owner rested after all, before it could be claimed', async () => {
  const lease = await hold('late', vanished)
  const found = await sessions.find(lease.name)
  await lease[Symbol.asyncDispose]()
  await (await hold('late', vanished, null))[Symbol.asyncDispose]()
  const find = sessions.find.bind(sessions)
  // What was read is older than what stands there.
  sessions.find = async () => (found === null ? null : { ...found, holder: null })
  try {
    expect(await isKilled('late')).toBe(false)
  } finally {
    sessions.find = find
  }
})

it('is a session in its turn that nobody holds, and nobody attaches to it meanwhile', async () => {
  await (await hold('free', vanished))[Symbol.asyncDispose]()
  const name = { tenantId: 'acme', backend: 'vendor', key: 'free' }
  const killed = await isKilled('free', async () =>
    expect(await sessions.find(name)).toMatchObject({ holder: self }),
  )
  expect(killed).toBe(true)
  expect(await sessions.find(name)).toMatchObject({ holder: null })
})

it('is a session that a worker alone reaches', async () => {
  const name = { tenantId: 'acme', backend: 'vendor', key: 'alone' }
  const far = Date.now() + 3_600_000
  const entry = {
    sessionId: newSessionId(),
    scope: 'files',
    epoch: 1,
    handle: {},
    createdAtMs: 1,
    usedAtMs: 1,
    idleAtMs: far,
    expiresAtMs: far,
  } as const
  await sessions.announce(name, newWorkerId('0123456789ab'), { entry, isBusy: true })
  expect(await isKilled('alone')).toBe(true)
})
