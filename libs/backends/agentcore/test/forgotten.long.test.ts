/** Kept sessions at AgentCore whose entry Redis lost: nobody can use them, so workers stop them soon. */
import { newWorkerId, type Backend, type SessionRegistry } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { warmSlots } from '@cofferdam/sandbox/conformance'
import { AT_MOST, describeAgentcore, FLEET, run } from './at-double.ts'
import { redisSessions, type TestSessions, python } from '@cofferdam/backend-remote/testing'

const SET = python('kept = 41')
const GET = python('print(kept + 1)')
const KEPT = { reuse: 'session', session: { key: 'turn', scope: 'interpreter', idleMs: null } } as const

describeAgentcore('a session of agentcore that the registry lost', (at) => {
  let sessions: TestSessions
  beforeEach(async () => {
    sessions = await redisSessions()
  })
  afterEach(async () => {
    await sessions[Symbol.asyncDispose]()
  })

  /** A worker that stops a forgotten session at the second look. */
  const worker = (registry: SessionRegistry = sessions, fleet = FLEET, afterMs = 0): Backend =>
    at.backend({ forgotten_after_ms: afterMs }, { sessions: registry, warm: warmSlots(newWorkerId(fleet)) })
  const running = (): number => at.double.sessions.running().length
  async function rested(by: Backend): Promise<void> {
    const sandbox = await at.open(SET, KEPT, by)
    await run(sandbox, SET)
    await sandbox[Symbol.asyncDispose]()
  }
  /** Looks for forgotten sessions, as the janitor does. */
  async function look(by: Backend, times: number): Promise<void> {
    for (let time = 0; time < times; time += 1) await by.owners()
  }

  it('is stopped only by a worker of its fleet that has known of it for long enough', async () => {
    await rested(worker())
    await sessions.clear()
    await look(worker(sessions, 'facefaceface'), 3)
    await look(worker(sessions, FLEET, 3_600_000), 3)
    const other = worker()
    await look(other, 1)
    expect(running()).toBe(1)
    await look(other, 1)
    expect(running()).toBe(0)
  })

  it('is not confused with a session that starts, has a turn, or rests, for those have entries', async () => {
    const [by, other] = [worker(), worker()]
    let isOver = false
    async function looking(): Promise<void> {
      while (!isOver) await look(other, 1)
    }
    const looks = looking()
    try {
      await rested(by)
      const again = await at.open(GET, KEPT, by)
      expect((await run(again, GET)).stdout).toBe('42\n')
      await again[Symbol.asyncDispose]()
    } finally {
      isOver = true
      await looks
    }
    await look(other, 2)
    expect(running()).toBe(1)
    await sessions.clear()
    await look(other, 2)
  })

  it('is not stopped while the registry is unavailable', async () => {
    await rested(worker())
    await sessions.clear()
    const redis = connectRedis(sessions.url, 'worker')
    const blind = worker(createSessionRegistry({ redis, timeoutMs: 100 }))
    await look(blind, 1)
    redis.disconnect()
    await look(blind, 3)
    expect(running()).toBe(1)
    const other = worker()
    await look(other, 2)
    expect(running()).toBe(0)
  })

  it('is not stopped if its turn restores the entry', async () => {
    const redis = connectRedis(sessions.url, 'worker')
    const registry = createSessionRegistry({ redis, leaseMs: 6000 })
    const [by, other] = [worker(registry), worker()]
    const sandbox = await at.open(SET, KEPT, by)
    try {
      await run(sandbox, SET)
      await sessions.clear()
      await look(other, 1)
      const name = { tenantId: 't', backend: 'agentcore', key: KEPT.session.key }
      await expect.poll(async () => await sessions.find(name), AT_MOST).not.toBeNull()
      await look(other, 3)
      expect((await run(sandbox, GET)).stdout).toBe('42\n')
    } finally {
      sandbox.retire?.()
      await sandbox[Symbol.asyncDispose]()
      redis.disconnect()
    }
  })
})
