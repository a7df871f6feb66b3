/** Which sandboxes are killed when the owner of an execution died. The session registry is real. */
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
  // Longer than a test, so that a lease ends only when the test releases it.
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

/** Claims the session of this key and writes whose turn it is. Null: the session is idle. */
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

/** True when the sandbox was killed. `while_` runs during the kill. */
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

it('kills a sandbox without a session, or whose session is unknown', async () => {
  expect([await isKilled(null), await isKilled('never-kept')]).toEqual([true, true])
})

it('kills an execution’s own sandbox outside its session, whatever the session does', async () => {
  await using _turn = await hold('left', newWorkerId('0123456789ab'), newExecutionId())
  expect([await isKilled('left'), await isKilled('left', undefined, { ownSandbox: true })]).toEqual([
    false,
    true,
  ])
})

it('kills a session that the dead owner holds in the turn of the execution', async () => {
  await using _lease = await hold('theirs', vanished)
  expect(await isKilled('theirs')).toBe(true)
})

it('leaves a session in another execution’s turn, or that another worker holds', async () => {
  const other = newWorkerId('0123456789ab')
  await using _turn = await hold('taken', other, newExecutionId())
  await using _claimed = await hold('found', other)
  expect([await isKilled('taken'), await isKilled('found')]).toEqual([false, false])
})

it('leaves an idle session, because the turn of the execution has ended', async () => {
  await (await hold('rests', vanished, null))[Symbol.asyncDispose]()
  await using _held = await hold('rests-held', vanished, null)
  expect([await isKilled('rests'), await isKilled('rests-held')]).toEqual([false, false])
})

it('leaves a session without a holder in the unfinished turn of another execution', async () => {
  await (await hold('other', vanished, newExecutionId()))[Symbol.asyncDispose]()
  expect(await isKilled('other')).toBe(false)
})

it('leaves a session that became idle before it could be claimed', async () => {
  const lease = await hold('late', vanished)
  const found = await sessions.find(lease.name)
  await lease[Symbol.asyncDispose]()
  await (await hold('late', vanished, null))[Symbol.asyncDispose]()
  const find = sessions.find.bind(sessions)
  // The lookup returns an older state than the registry has.
  sessions.find = async () => (found === null ? null : { ...found, holder: null })
  try {
    expect(await isKilled('late')).toBe(false)
  } finally {
    sessions.find = find
  }
})

it('claims and kills a session without a holder in the turn of the execution', async () => {
  await (await hold('free', vanished))[Symbol.asyncDispose]()
  const name = { tenantId: 'acme', backend: 'vendor', key: 'free' }
  const killed = await isKilled('free', async () =>
    expect(await sessions.find(name)).toMatchObject({ holder: self }),
  )
  expect(killed).toBe(true)
  expect(await sessions.find(name)).toMatchObject({ holder: null })
})

it('kills a session that only one worker reaches', async () => {
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
