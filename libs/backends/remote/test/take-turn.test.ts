/** Turns in kept sessions: the vendor is simulated in memory, the registry runs on a real Redis. */
import {
  CofferdamError,
  newSessionId,
  newWorkerId,
  type SandboxSpec,
  type SessionEntry,
} from '@cofferdam/contract'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { SILENT } from '@cofferdam/sandbox/backend'
import type { SessionKeeper } from '../src/session-keeper.ts'
import { takeTurn, type KeptTurn } from '../src/take-turn.ts'
import { redisSessions, type TestSessions } from './redis-sessions.ts'
import { jobSpec, python } from './remote-run.ts'

const FLEET = 'a1a1a1a1a1a1'
const HOUR_MS = 3_600_000
const LIMITS = { idleMs: 60_000, maxAgeMs: HOUR_MS, maxRuns: 2 }

let sessions: TestSessions
beforeAll(async () => {
  sessions = await redisSessions()
})
afterAll(() => sessions[Symbol.asyncDispose]())

/** Existing sandboxes. */
let running: Set<string>
let key: string
const name = () => ({ tenantId: 't', backend: 'vendor', key })
beforeEach(() => {
  running = new Set()
  key = randomUUID()
})

/** A keeper like every vendor's; `change` overrides parts of it. */
function keeper(change: Partial<SessionKeeper<string>> = {}): SessionKeeper<string> {
  return {
    backend: 'vendor',
    registry: sessions,
    limits: LIMITS,
    startMs: 1000,
    logger: SILENT,
    refuse: () => undefined,
    async attach({ entry, begins }) {
      await begins()
      return running.has(idOf(entry)) ? idOf(entry) : null
    },
    promise: async () => ({ handle: { id: randomUUID() }, expiresAtMs: null }),
    async start({ entry }) {
      running.add(idOf(entry))
      return { held: idOf(entry), handle: entry.handle }
    },
    rest: async () => ({}),
    destroy: async (id) => running.delete(id),
    end: async (entry) => running.delete(idOf(entry)),
    ...change,
  }
}
const idOf = ({ handle }: SessionEntry): string => String(handle['id'])

const specOf = (change: Partial<SandboxSpec> = {}, scope: SessionEntry['scope'] = 'files'): SandboxSpec => ({
  ...jobSpec(FLEET, python('1')),
  reuse: 'session',
  session: { key, scope, idleMs: null },
  ...change,
})
const take = async (
  change?: Partial<SessionKeeper<string>>,
  spec: SandboxSpec = specOf(),
): Promise<KeptTurn<string>> => await takeTurn(keeper(change), spec, AbortSignal.timeout(20_000))
const entry = async (): Promise<SessionEntry> =>
  (await sessions.find(name())) ?? expect.fail('it is not in the registry')

/** A session at rest, as left by another holder. */
async function rested(change: Partial<SessionEntry> = {}): Promise<string> {
  await using lease = await sessions.claim(name(), newWorkerId(FLEET), {
    waitMs: 0,
    signal: AbortSignal.timeout(20_000),
  })
  const id = randomUUID()
  running.add(id)
  const now = Date.now()
  await lease.keep({
    sessionId: newSessionId(),
    scope: 'files',
    epoch: lease.nextEpoch,
    handle: { id },
    createdAtMs: now,
    usedAtMs: now,
    idleAtMs: now + 60_000,
    expiresAtMs: null,
    ...change,
  })
  return id
}

describe('a turn', () => {
  it('is recorded before its sandbox is created, and ends with the write of its rest', async () => {
    const spec = specOf()
    let written: SessionEntry | null = null
    const turn = await take(
      {
        async start(at) {
          written = await entry()
          return await keeper().start(at)
        },
      },
      spec,
    )
    expect(written).toMatchObject({ turn: spec.executionId, handle: { id: turn.held }, runs: 1 })
    await turn.end(false)
    const left = await entry()
    expect(left).toMatchObject({ executionId: spec.executionId, runs: 1, handle: { id: turn.held } })
    expect(left).not.toHaveProperty('turn')
    expect(left.idleAtMs - left.usedAtMs).toBe(LIMITS.idleMs)
  })

  it('that never ended leaves a sandbox that the next holder ends instead of joining it', async () => {
    const dead = await take()
    await sessions.expire(name())
    const next = await take()
    expect([next.isFresh, running]).toEqual([true, new Set([next.held])])
    expect(next.held).not.toBe(dead.held)
    // If the old holder is still alive after all, its `end` does not end the next holder's sandbox.
    await dead.end(false)
    expect(running).toEqual(new Set([next.held]))
    await next.end(false)
    expect(idOf(await entry())).toBe(next.held)
  })

  it('keeps the session if its worker dies before the turn begins', async () => {
    const id = await rested()
    const asked = Promise.withResolvers<undefined>()
    const answer = Promise.withResolvers<null>()
    const dying = take({
      attach() {
        asked.resolve(undefined)
        return answer.promise
      },
    })
    await asked.promise
    await sessions.expire(name())
    const next = await take()
    expect([next.held, next.isFresh]).toEqual([id, false])
    // If the worker was only slow, it finds that it was replaced.
    const replaced = expect(dying).rejects.toMatchObject({ code: 'fenced' })
    answer.resolve(null)
    await replaced
    await next.end(false)
    expect(running).toEqual(new Set([id]))
  })

  it('does not end the next holder’s sandbox if its own holder was suspended and replaced', async () => {
    const id = await rested()
    let next: KeptTurn<string> | undefined
    const stalled = take({
      async attach() {
        await sessions.expire(name())
        next = await take()
        return null
      },
    })
    await expect(stalled).rejects.toMatchObject({ code: 'fenced' })
    expect([next?.held, running]).toEqual([id, new Set([id])])
    await next?.end(false)
  })

  it('leaves the session to the next holder if the answer to its end is lost', async () => {
    const unanswered: SessionKeeper<string>['registry'] = {
      ...sessions,
      async claim(...asked) {
        const lease = await sessions.claim(...asked)
        const keep = lease.keep.bind(lease)
        return Object.assign(lease, {
          async keep(next: SessionEntry) {
            await keep(next)
            if (next.turn === undefined) throw new CofferdamError('queue_unavailable')
          },
        })
      },
    }
    const turn = await take({ registry: unanswered })
    await turn.end(false)
    const next = await take()
    expect([next.held, next.isFresh]).toEqual([turn.held, false])
    await next.end(false)
  })

  it('ends the session if the write of its end is refused', async () => {
    const turn = await take({
      async rest() {
        await sessions.expire(name())
        return {}
      },
    })
    await turn.end(false)
    expect([running.size, (await entry()).turn]).toEqual([0, turn.entry.turn])
  })
})

describe('a kept session', () => {
  it('ends for its age before the next turn, but not before a file request', async () => {
    const old = { createdAtMs: Date.now() - HOUR_MS - 1 }
    const id = await rested(old)
    const look = await take({}, specOf({ program: { type: 'files', op: 'list' } }))
    expect([look.held, look.isFresh]).toEqual([id, false])
    await look.end(false)
    expect(await entry()).toMatchObject({ expiresAtMs: old.createdAtMs + HOUR_MS })
    expect((await entry()).runs).toBe(0)
    expect(await sessions.overdue('vendor', 10)).toContainEqual(name())
    const next = await take()
    expect([next.isFresh, running]).toEqual([true, new Set([next.held])])
    await next.end(false)
  })

  it('is replaced after its maximum of runs only if it keeps nothing', async () => {
    for (const [scope, last] of [
      ['none', [false, true]],
      ['files', [true, true]],
    ] as const) {
      key = randomUUID()
      const isThere: boolean[] = []
      for (let run = 1; run <= 3; run += 1) {
        const turn = await take({}, specOf({}, scope))
        await turn.end(false)
        isThere.push(running.has(turn.held))
      }
      expect(isThere, scope).toEqual([true, ...last])
    }
  })

  it('has as much time for a turn as its program may take, and four minutes for a collection', async () => {
    const collect = { type: 'files', op: 'collect', path: 'out' } as const
    const timeOf = async (more: Partial<SandboxSpec>) => {
      const turn = await take({}, specOf(more))
      const { idleAtMs, usedAtMs } = await entry()
      await turn.end(false)
      return idleAtMs - usedAtMs
    }
    await (await take()).end(false)
    // Each time includes one second more: the keeper's `startMs`.
    expect(await timeOf({})).toBe(31_000)
    expect(await timeOf({ program: { type: 'files', op: 'list' } })).toBe(31_000)
    expect(await timeOf({ program: collect })).toBe(241_000)
  })

  it('keeps its idle time after a turn that names none', async () => {
    const spec = specOf()
    await (await take({}, { ...spec, session: { key, scope: 'files', idleMs: 3_000_000 } })).end(false)
    await (await take()).end(false)
    const { idleAtMs, usedAtMs } = await entry()
    expect(idleAtMs - usedAtMs).toBe(3_000_000)
  })

  it('stays listed until its end is known if it did not start', async () => {
    const failed = new Error('no sandbox')
    const start = (): Promise<never> => Promise.reject(failed)
    await expect(take({ start, end: () => Promise.reject(new Error('away')) })).rejects.toBe(failed)
    expect(await entry()).toMatchObject({ holder: null })
    await expect(take({ start })).rejects.toBe(failed)
    expect(await sessions.find(name())).toBeNull()
  })
})
