/**
 * Compares workers with a model in random schedules: they claim, keep, forget, stall, die and lose their
 * server.
 */
import { isCofferdamError, type SessionEntry, type SessionLease, type SessionName } from '@cofferdam/contract'
import { scheduleSeed, testRedis, type TestServer } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { entryAt, freshName, moveClock, openSessions, sessionKey, type Opened } from './open-sessions.ts'

let server: TestServer
let workers: Opened[]
beforeAll(async () => {
  server = await testRedis()
  workers = [0, 1, 2].map(() => openSessions(server.url, { leaseMs: 3_600_000 }))
})
afterAll(async () => {
  for (const worker of workers) worker.close()
  await server.stop()
})

const PAST = 1_700_000_001_000
const FAR = Date.now() + 86_400_000

type Step =
  | { do: 'claim' | 'release' | 'die' | 'forget'; worker: number; session: number }
  | { do: 'keep'; worker: number; session: number; isPast: boolean }
  | { do: 'clock'; session: number; hours: number }
  | { do: 'reap' }

const at = { worker: fc.nat(2), session: fc.nat(1) }
const stepArb: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('claim' as const), ...at }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('keep' as const), ...at, isPast: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('release' as const, 'die' as const), ...at }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('forget' as const), ...at }) },
  // Moves the clock forward by more than a lease (1 h), or back by less than a session is remembered (2
  // days).
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('clock' as const),
      session: at.session,
      hours: fc.constantFrom(2, 24, -1, -24),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ do: 'reap' as const }) },
)

/** The model's state of one session. */
interface Book {
  /** Hours until the latest lease ends by the server's clock. Null: it was released or its holder died. */
  leftHours: number | null
  entry: SessionEntry | null
  fence: number
  /** The highest epoch that a vendor may have seen. */
  epoch: number
}

it('a session has one holder, fenced writes are refused, and no session with a sandbox is lost', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(stepArb, { minLength: 5, maxLength: 50 }), async (steps) => {
      const base = freshName()
      const names = [base, { ...base, key: 'second' }]
      const books: Book[] = names.map(() => ({ leftHours: null, entry: null, fence: 0, epoch: 0 }))
      // Leases by worker and session, including lost ones: a stopped process wakes up with its old lease.
      const leases = new Map<string, SessionLease>()
      try {
        for (const step of steps) {
          await play(step, names, books, leases)
          for (const [i, name] of names.entries()) {
            const found = await workers[0]!.sessions.find(name)
            const { entry } = books[i]!
            expect(found === null ? null : pick(found)).toEqual(entry)
          }
          const listed = (await workers[1]!.sessions.list(base.tenantId)).sessions
          expect(listed.map(({ key }) => key).toSorted()).toEqual(
            names.filter((_, i) => books[i]!.entry !== null).map(({ key }) => key),
          )
        }
        await everySandboxIsReaped(base.backend, names, books)
      } finally {
        for (const lease of leases.values()) await lease[Symbol.asyncDispose]()
      }
    }),
    { numRuns: 40, seed: scheduleSeed() },
  )
})

async function play(
  step: Step,
  names: SessionName[],
  books: Book[],
  leases: Map<string, SessionLease>,
): Promise<void> {
  if (step.do === 'reap') return await reap(names, books)
  const [name, book] = [names[step.session]!, books[step.session]!]
  if (step.do === 'clock') {
    await moveClock(workers[0]!.redis, name, step.hours * 3_600_000)
    if (book.leftHours !== null) book.leftHours -= step.hours
    book.fence = Number((await workers[0]!.redis.hget(sessionKey(name), 'fence')) ?? 0)
    return
  }
  const mine = `${step.worker}:${step.session}`
  const lease = leases.get(mine)
  switch (step.do) {
    case 'claim': {
      const claimed = await workers[step.worker]!.claim(name).catch((error: unknown) => {
        if (isCofferdamError(error) && error.code === 'conflict') return null
        throw error
      })
      expect(claimed === null).toBe(isHeld(book))
      if (claimed === null) return
      if (lease !== undefined) await lease[Symbol.asyncDispose]()
      expect(claimed.fence).toBeGreaterThan(book.fence)
      expect(claimed.nextEpoch).toBeGreaterThan(book.epoch)
      expect(claimed.entry).toEqual(book.entry)
      Object.assign(book, { leftHours: 1, fence: claimed.fence, epoch: claimed.nextEpoch })
      leases.set(mine, claimed)
      return
    }
    case 'keep': {
      if (lease === undefined) return
      const entry = entryAt(lease.nextEpoch, step.isPast ? PAST : FAR)
      // Only the latest holder can write, even after its lease if nobody claimed the session since.
      const isLatest = lease.fence === book.fence
      const code = await codeOf(lease.keep(entry))
      expect(code).toBe(isLatest ? 'done' : 'fenced')
      if (isLatest) Object.assign(book, { entry, epoch: Math.max(book.epoch, entry.epoch) })
      return
    }
    case 'forget': {
      if (lease === undefined) return
      const isLatest = lease.fence === book.fence
      expect(await codeOf(lease.forget())).toBe(isLatest ? 'done' : 'fenced')
      if (isLatest) book.entry = null
      return
    }
    case 'release':
    case 'die':
      if (lease === undefined) return
      if (step.do === 'release') await lease[Symbol.asyncDispose]()
      // A dead holder's lease expires, and its process does nothing any more.
      else if (lease.fence === book.fence) await workers[0]!.redis.hset(sessionKey(name), 'till', 0)
      if (lease.fence === book.fence) book.leftHours = null
      leases.delete(mine)
  }
}

/** Ends overdue sessions as a reaper does, but never a held one. */
async function reap(names: SessionName[], books: Book[]): Promise<void> {
  const reaper = workers[2]!
  for (const name of await reaper.sessions.overdue(names[0]!.backend, 10)) {
    const book = books[names.findIndex(({ key }) => key === name.key)]!
    expect([isHeld(book), book.entry?.idleAtMs]).toEqual([false, PAST])
    await using lease = await reaper.claim(name)
    await lease.forget()
    Object.assign(book, {
      leftHours: null,
      entry: null,
      fence: lease.fence,
      epoch: Math.max(book.epoch, lease.nextEpoch),
    })
  }
}

/** Whatever happened before: when the leases are over, every session past its deadline is found. */
async function everySandboxIsReaped(backend: string, names: SessionName[], books: Book[]): Promise<void> {
  const { redis, sessions } = workers[0]!
  for (const [i, name] of names.entries()) {
    if (books[i]!.entry === null) continue
    await redis.hset(sessionKey(name), 'till', 0)
    const due = `{cofferdam}:sessions-due:${backend}`
    // A check that was postponed to the end of a lease becomes due when the lease is over.
    if (books[i]!.entry.idleAtMs === PAST) await redis.zadd(due, 'LT', PAST, `${name.tenantId}:${name.key}`)
    expect(await redis.zscore(due, `${name.tenantId}:${name.key}`)).not.toBe(null)
  }
  const overdue = (await sessions.overdue(backend, 10)).map(({ key }) => key).toSorted()
  expect(overdue).toEqual(names.filter((_, i) => books[i]!.entry?.idleAtMs === PAST).map(({ key }) => key))
}

const isHeld = (book: Book): boolean => (book.leftHours ?? 0) > 0

const codeOf = async (pending: Promise<void>): Promise<string> =>
  await pending.then(
    () => 'done',
    (error: unknown) => (isCofferdamError(error) ? error.code : String(error)),
  )

const pick = ({
  sessionId,
  scope,
  epoch,
  handle,
  createdAtMs,
  usedAtMs,
  idleAtMs,
  expiresAtMs,
}: SessionEntry) => ({
  sessionId,
  scope,
  epoch,
  handle,
  createdAtMs,
  usedAtMs,
  idleAtMs,
  expiresAtMs,
})
