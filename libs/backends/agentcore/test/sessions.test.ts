/** Kept sessions at AgentCore: whose they are, what ends them, and what they survive. */
import { randomUUID } from 'node:crypto'
import { DEFAULT_LIMITS, type Program, type SandboxSpec } from '@cofferdam/contract'
import { testRedis, type TestServer } from '@cofferdam/embedded/testing'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { AT_MOST, describeAgentcore, invoke, run } from './at-double.ts'
import { redisSessions, python } from '@cofferdam/backend-remote/testing'

const MARK = python('print("done")')
const NAME = { tenantId: 't', backend: 'agentcore', key: 'turn' }
const kept = (key = NAME.key) =>
  ({
    reuse: 'session',
    session: { key, scope: 'interpreter', idleMs: null },
  }) as const satisfies Partial<SandboxSpec>

describeAgentcore('a kept session at agentcore', (at) => {
  const { open } = at
  let server: TestServer
  beforeAll(async () => {
    server = await testRedis()
  })
  afterAll(async () => {
    await server.stop()
  })

  /** A worker that keeps sessions, with its own Redis connection. */
  async function keeping(leaseMs?: number) {
    const redis = connectRedis(server.url, 'worker')
    const registry = createSessionRegistry({ redis, ...(leaseMs === undefined ? {} : { leaseMs }) })
    const by = at.backend({}, { sessions: registry })
    const dispose = by[Symbol.asyncDispose].bind(by)
    by[Symbol.asyncDispose] = async () => {
      await dispose()
      redis.disconnect()
    }
    const key = randomUUID()
    return { by, session: kept(key), redis, registry, key }
  }

  it('is continued by another worker and ended by the reaper’s call', async () => {
    const [one, other] = [await keeping(), await keeping()]
    const first = await open(MARK, one.session, one.by)
    await run(first, python('kept = 41'))
    await first[Symbol.asyncDispose]()
    const second = await open(MARK, one.session, other.by)
    expect((await run(second, python('print(kept + 1)'))).stdout).toBe('42\n')
    await second[Symbol.asyncDispose]()
    const name = { ...NAME, key: one.key }
    const entry = await other.registry.find(name)
    expect(JSON.stringify(entry)).not.toContain('canary')
    if (entry === null) return expect.fail('it is not in the registry')
    expect(await other.by.endSession?.(name, entry, AbortSignal.timeout(60_000))).toBe(true)
  })

  it('keeps its idle time after a file request that names none', async () => {
    const { by, session, registry, key } = await keeping()
    const waits = { ...session, session: { ...session.session, idleMs: 3_000_000 } }
    await (await open(MARK, waits, by))[Symbol.asyncDispose]()
    const looking = await open(MARK, { ...session, program: { type: 'files', op: 'list' } }, by)
    expect(looking.session?.fresh).toBe(false)
    await looking[Symbol.asyncDispose]()
    const name = { ...NAME, key }
    const entry = await registry.find(name)
    if (entry === null) return expect.fail('it is not in the registry')
    expect(entry.idleAtMs - entry.usedAtMs).toBe(3_000_000)
    expect(await by.endSession?.(name, entry, AbortSignal.timeout(60_000))).toBe(true)
  })

  it('is not reused after its interpreter died or its program had to be stopped', async () => {
    const { by, session } = await keeping()
    const limits = { ...DEFAULT_LIMITS, soft_timeout_ms: 2000, hard_timeout_ms: 10_000 }
    for (const [source, exitCode, oomKills] of [
      // The program kills itself; the kernel does not kill it for memory.
      ['import os, signal\nos.kill(os.getpid(), signal.SIGKILL)', 137, 0],
      ['import time\ntime.sleep(60)', 130, 0],
    ] as const) {
      const sandbox = await open(MARK, { ...session, limits }, by)
      expect(sandbox.session?.fresh).toBe(true)
      expect((await run(sandbox, python(source))).exit).toMatchObject({ exitCode, oomKills })
      await sandbox[Symbol.asyncDispose]()
    }
  })

  it('is stopped if it cannot be recorded for the next execution', async () => {
    const [one, other] = [await keeping(6000), await keeping()]
    const sandbox = await open(MARK, one.session, one.by)
    // Only the write of the session's deadline fails, so the lease can still be released.
    const send = one.redis.sendCommand.bind(one.redis)
    one.redis.sendCommand = (command, stream) =>
      command.name === 'zadd' ? command.promise : send(command, stream)
    await sandbox[Symbol.asyncDispose]()
    at.opened.splice(at.opened.indexOf(sandbox), 1)
    const name = { ...NAME, key: one.key }
    expect(await other.registry.find(name)).toMatchObject({ holder: null })
    const second = await open(MARK, one.session, other.by)
    expect(second.session?.fresh).toBe(true)
    second.retire?.()
  })

  it('stays registered by its name while its start is uncertain', async () => {
    const { by, session, key, registry } = await keeping()
    const name = { ...NAME, key }
    at.double.fault(
      { operation: 'StartCodeInterpreterSession', kind: 'cut-after', times: 3 },
      { operation: 'ListCodeInterpreterSessions', kind: 'cut-before', times: 6 },
    )
    await expect(open(MARK, session, by)).rejects.toMatchObject({ code: 'backend_unavailable' })
    expect(at.double.sessions.running()).toHaveLength(1)
    at.double.fault()
    const entry = await registry.find(name)
    if (entry === null) return expect.fail('it is forgotten, and paid for until its time ends')
    expect(await by.endSession?.(name, entry, AbortSignal.timeout(60_000))).toBe(true)
    // If the backend learns that the session has ended, no entry is left of it.
    at.double.fault({ operation: 'StartCodeInterpreterSession', kind: 'cut-after', times: 3 })
    await expect(
      open(MARK, { ...session, session: { ...session.session, key: `${key}2` } }, by),
    ).rejects.toThrow()
    expect(await registry.find({ ...name, key: `${key}2` })).toBeNull()
  })

  it.each([
    ['the rate', 'ThrottlingException', 4],
    ['the rights', 'AccessDeniedException', 1],
    ['keys that are over', 'ExpiredTokenException', 1],
  ])('survives if its next execution is refused for %s', async (_what, error, times) => {
    const { by, session } = await keeping()
    const first = await open(MARK, session, by)
    await first[Symbol.asyncDispose]()
    at.double.fault(invoke('http', { error, times }))
    await expect(open(MARK, session, by)).rejects.toMatchObject({ code: 'backend_unavailable' })
    expect(at.double.faultsLeft).toEqual([])
    const second = await open(MARK, session, by)
    expect(second.session?.fresh).toBe(false)
    second.retire?.()
  })

  it('survives a lost answer to the liveness check', async () => {
    const { by, session } = await keeping()
    await (await open(MARK, session, by))[Symbol.asyncDispose]()
    at.double.fault(invoke('http', { error: 'InternalServerException' }), invoke('cut-after'))
    const second = await open(MARK, session, by)
    expect([second.session?.fresh, at.double.faultsLeft]).toEqual([false, []])
    second.retire?.()
  })

  it('counts as gone if its interpreter is gone, even if its ID was never learnt', async () => {
    const { by, session, key, registry } = await keeping()
    const name = { ...NAME, key }
    const sandbox = await open(MARK, session, by)
    const entry = await registry.find(name)
    if (entry === null) return expect.fail('it is not in the registry')
    expect(entry.handle).not.toHaveProperty('session')
    at.double.interpreters = new Set()
    await expect(
      by.endSession?.(name, entry, AbortSignal.timeout(60_000)).finally(() => {
        at.double.interpreters = null
      }),
    ).resolves.toBe(false)
    sandbox.retire?.()
  })

  it('is stopped and not reused if its worker died during the turn', async () => {
    const [dying, other] = [await keeping(), await keeping()]
    const sandbox = await open(MARK, dying.session, dying.by)
    dying.redis.disconnect()
    // Expires its lease, as if its time had passed.
    await other.redis.hset(`cfd:{t}:session:agentcore:${dying.key}`, 'till', 0)
    const second = await open(MARK, dying.session, other.by)
    expect(second.session?.fresh).toBe(true)
    expect(at.sessionOf(sandbox).ended).toBe('stopped')
    second.retire?.()
  })

  it('serves no second program after a failed call', async () => {
    const { by, session } = await keeping()
    const first = await open(MARK, session, by)
    at.double.fault(invoke('cut-after'))
    await run(first, MARK)
    await first[Symbol.asyncDispose]()
    const second = await open(MARK, session, by)
    expect([second.session?.fresh, second.ref.handle['session'] === first.ref.handle['session']]).toEqual([
      true,
      false,
    ])
    second.retire?.()
  })

  it('shows the next execution no file with an earlier program’s variables', async () => {
    const { by, session } = await keeping()
    const long: Program = {
      type: 'script',
      language: 'bash',
      source: `: ${'x'.repeat(110 * 1024)}\necho done`,
    }
    const first = await open(long, { ...session, env: { API_TOKEN: 'a-secret-of-the-tenant-98' } }, by)
    expect((await run(first, long)).stdout).toBe('done\n')
    expect(at.double.calls.some(({ tool, text }) => tool === 'writeFiles' && text.includes('.sh'))).toBe(true)
    await first[Symbol.asyncDispose]()
    const second = await open(MARK, session, by)
    expect(second.session?.fresh).toBe(false)
    const found = await run(second, python('import glob\nprint(glob.glob("/home/user/cofferdam-*"))'))
    expect(found.stdout).toBe('[]\n')
    second.retire?.()
  })

  it('is ended even if the caller no longer waits', async () => {
    const stop = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    async function take(bucket: string): Promise<void> {
      if (!bucket.endsWith(':Stop')) return
      asked.resolve()
      await stop.promise
    }
    await using sessions = await redisSessions()
    const by = at.backend({}, { sessions, rate: { take } })
    await (await open(MARK, kept(), by))[Symbol.asyncDispose]()
    const entry = await sessions.find(NAME)
    if (entry === null) return expect.fail('it is not in the registry')
    const late = new Error('late')
    await expect(by.endSession?.(NAME, entry, AbortSignal.abort(late))).rejects.toBe(late)
    const caller = new AbortController()
    const ending = expect(by.endSession?.(NAME, entry, caller.signal)).rejects.toBe(late)
    await asked.promise
    expect(at.double.sessions.running()).toHaveLength(1)
    caller.abort(late)
    await ending
    stop.resolve()
    await expect.poll(() => at.double.sessions.running(), AT_MOST).toEqual([])
  })
})
