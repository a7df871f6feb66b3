/** The reaper ends idle sessions. The session registry is real, the backend is a fake. */
import {
  newSessionId,
  newWorkerId,
  type Backend,
  type SessionEntry,
  type SessionName,
} from '@cofferdam/contract'
import { createFakeBackend } from '@cofferdam/backends'
import { testRedis, type TestServer } from '@cofferdam/embedded/testing'
import { createSessionRegistry, type Sessions } from '@cofferdam/sessions'
import { Redis } from 'ioredis'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createSessionReaper } from '../src/session-reaper.ts'

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

const self = newWorkerId('0123456789ab')
const NEVER = 3_600_000

/** A backend with a new name whose vendor ends sessions with `end`. */
function vendor(end: (name: SessionName, signal: AbortSignal) => Promise<boolean>) {
  const name = `vendor-${randomUUID().slice(0, 8)}`
  const backend: Backend = Object.assign(createFakeBackend({}, name), {
    endSession: async (session: SessionName, _entry: SessionEntry, signal: AbortSignal) =>
      await end(session, signal),
  })
  return new Map([[name, backend]])
}

async function idle(backends: ReadonlyMap<string, Backend>, key: string, idleAtMs = 1): Promise<SessionName> {
  const [backend = ''] = backends.keys()
  const name = { tenantId: 'acme', backend, key }
  await using lease = await claim(name)
  await lease.keep({
    sessionId: newSessionId(),
    scope: 'files',
    epoch: lease.nextEpoch,
    handle: {},
    createdAtMs: 1,
    usedAtMs: 1,
    idleAtMs,
    expiresAtMs: null,
  })
  return name
}

const claim = async (name: SessionName) =>
  await sessions.claim(name, self, { waitMs: 0, signal: new AbortController().signal })

function reaper(
  backends: ReadonlyMap<string, Backend>,
  tickMs = NEVER,
  errors: unknown[] = [],
  registry = sessions,
) {
  const ended: string[] = []
  const made = createSessionReaper({
    backends,
    sessions: registry,
    self,
    tickMs,
    onEnded: ({ key }) => ended.push(key),
    onError: (error) => errors.push(error),
  })
  return { made, ended, errors }
}

describe('the session reaper', () => {
  it('ends overdue sessions at their backend, forgets them, and keeps the others', async () => {
    const asked: string[] = []
    const backends = vendor(async ({ key }) => asked.push(key) > 0)
    const overdue = await idle(backends, 'overdue')
    const fresh = await idle(backends, 'fresh', Date.now() + NEVER)
    const { made, ended } = reaper(backends)
    await using _ = made
    expect(await made.round()).toBe(1)
    expect([asked, ended]).toEqual([['overdue'], ['overdue']])
    expect([await sessions.find(overdue), (await sessions.find(fresh))?.key]).toEqual([null, 'fresh'])
  })

  it('never ends a session that is in use, however long it is overdue', async () => {
    const asked: string[] = []
    const backends = vendor(async ({ key }) => asked.push(key) > 0)
    const name = await idle(backends, 'running')
    await using _held = await claim(name)
    const { made, errors } = reaper(backends)
    await using _ = made
    expect(await made.round()).toBe(0)
    expect([asked, errors]).toEqual([[], []])
  })

  it('ends nothing when it stalled after its claim and another worker claimed the session', async () => {
    const asked: string[] = []
    const backends = vendor(async ({ key }) => asked.push(key) > 0)
    const name = await idle(backends, 'main')
    const stalled: Sessions = {
      ...sessions,
      async claim(...wish) {
        const lease = await sessions.claim(...wish)
        await redis.hset(`cfd:{${name.tenantId}}:session:${name.backend}:${name.key}`, 'till', 1)
        await (await claim(name))[Symbol.asyncDispose]()
        return lease
      },
    }
    const { made, errors } = reaper(backends, NEVER, [], stalled)
    await using _ = made
    expect(await made.round()).toBe(0)
    expect(errors).toMatchObject([{ code: 'fenced' }])
    expect([asked, (await sessions.find(name))?.turn]).toEqual([[], undefined])
  })

  it('prevents anybody from joining a session that it is about to end', async () => {
    const turns: unknown[] = []
    const backends = vendor(async (ending) => turns.push((await sessions.find(ending))?.turn) > 0)
    await idle(backends, 'main')
    const { made } = reaper(backends)
    await using _ = made
    expect(await made.round()).toBe(1)
    expect(turns).toEqual(['ending'])
  })

  it('ends each session once when three workers look at the same time', async () => {
    const asked: string[] = []
    const backends = vendor(async ({ key }) => asked.push(key) > 0)
    for (let i = 0; i < 20; i++) await idle(backends, `s${i}`)
    const reapers = [1, 2, 3].map(() => reaper(backends))
    const counts = await Promise.all(reapers.map(async ({ made }) => await made.round()))
    expect(counts.reduce((a, b) => a + b)).toBe(20)
    expect(new Set(asked).size).toBe(20)
    expect(asked).toHaveLength(20)
    for (const { made } of reapers) await made[Symbol.asyncDispose]()
  })

  it('keeps a session that its vendor did not end, reports the error, and retries', async () => {
    let isAway = true
    const backends = vendor(async () => {
      if (isAway) throw new Error('the vendor is away')
      return true
    })
    const name = await idle(backends, 'main')
    const { made, errors } = reaper(backends)
    await using _ = made
    expect(await made.round()).toBe(0)
    expect(errors).toMatchObject([{ message: 'the vendor is away' }])
    expect(await sessions.find(name)).not.toBe(null)
    isAway = false
    expect(await made.round()).toBe(0)
    // Ends the pause before the retry.
    await redis.zadd(`{cofferdam}:sessions-due:${name.backend}`, 1, `${name.tenantId}:${name.key}`)
    expect(await made.round()).toBe(1)
  })

  it('runs rounds on a timer, and stops waiting for a vendor when it is disposed', async () => {
    const asked = Promise.withResolvers<undefined>()
    const backends = vendor(async (_name, signal) => {
      asked.resolve(undefined)
      return await new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    })
    const name = await idle(backends, 'main')
    const { made, errors } = reaper(backends, 20)
    await asked.promise
    await made[Symbol.asyncDispose]()
    expect(errors).toEqual([])
    expect(await sessions.find(name)).toMatchObject({ key: 'main', holder: null })
  })

  it('skips the ticks during a long round, and closes at once after that round', async () => {
    const asked = Promise.withResolvers<undefined>()
    const backends = vendor(async (_name, signal) => {
      asked.resolve(undefined)
      return await new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    })
    await idle(backends, 'main')
    let looks = 0
    const counted: Sessions = {
      ...sessions,
      overdue: async (backend, limit) => {
        looks += 1
        return await sessions.overdue(backend, limit)
      },
    }
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    try {
      const { made } = reaper(backends, 10, [], counted)
      vi.advanceTimersByTime(10)
      await asked.promise
      vi.advanceTimersByTime(500)
      await made[Symbol.asyncDispose]()
    } finally {
      vi.useRealTimers()
    }
    expect(looks).toBe(1)
  })

  it('ends the sessions of other vendors while one vendor hangs', async () => {
    const ended = Promise.withResolvers<string>()
    const hanging = vendor(
      async (_name, signal) =>
        await new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason))
        }),
    )
    const other = vendor(async ({ key }) => {
      ended.resolve(key)
      return true
    })
    await idle(hanging, 'stuck')
    await idle(other, 'next')
    const { made } = reaper(new Map([...hanging, ...other]))
    const round = made.round()
    expect(await ended.promise).toBe('next')
    await made[Symbol.asyncDispose]()
    expect(await round).toBe(1)
  })
})
