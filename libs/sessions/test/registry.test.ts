/** Each promise of the registry, against a real server. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startRedis } from '@cofferdam/embedded'
import { isolatedRedis, testRedis, type TestServer } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { entryAt, freshName, openSessions, sessionKey, type Opened } from './open-sessions.ts'

let server: TestServer
let a: Opened
let b: Opened
beforeAll(async () => {
  server = await testRedis()
  a = openSessions(server.url)
  b = openSessions(server.url)
})
afterAll(async () => {
  a.close()
  b.close()
  await server.stop()
})

const FAR = Date.now() + 3_600_000
/**
 * Short, because a test waits for the end of a lease. Not shorter, because a call may take only a third of
 * it, and a busy machine may stall.
 */
const LEASE_MS = 2400

describe('a claim', () => {
  it('gives a session to one of two workers, and its kept entry to the next holder', async () => {
    const name = freshName()
    const first = await a.claim(name)
    expect(first.entry).toBe(null)
    await expect(b.claim(name)).rejects.toMatchObject({ code: 'conflict' })
    const entry = entryAt(first.nextEpoch, FAR)
    await first.keep(entry)
    expect(await b.sessions.find(name)).toEqual({ ...name, ...entry, holder: a.worker, owner: null })
    await first[Symbol.asyncDispose]()
    await using second = await b.claim(name)
    expect(second.entry).toEqual(entry)
    expect(second.fence).toBeGreaterThan(first.fence)
    expect(second.nextEpoch).toBeGreaterThan(entry.epoch)
  })

  it('waits until the holder releases the session', async () => {
    const name = freshName()
    const first = await a.claim(name)
    const waiting = b.claim(name, 10_000)
    await first[Symbol.asyncDispose]()
    await using second = await waiting
    expect(second.fence).toBeGreaterThan(first.fence)
  })

  it('rejects with the reason of the signal when it is aborted while it waits', async () => {
    const name = freshName()
    await using _held = await a.claim(name)
    const stop = new AbortController()
    const waiting = b.sessions.claim(name, b.worker, { waitMs: 60_000, signal: stop.signal })
    stop.abort(new Error('drained'))
    await expect(waiting).rejects.toThrow('drained')
  })

  it('succeeds for exactly one of fifty concurrent callers', async () => {
    const name = freshName()
    const tries = Array.from({ length: 50 }, async (_, i) => await (i % 2 === 0 ? a : b).claim(name))
    const settled = await Promise.allSettled(tries)
    const won = settled.filter((each) => each.status === 'fulfilled')
    expect(won).toHaveLength(1)
    for (const each of won) await each.value[Symbol.asyncDispose]()
  })

  it('gets higher fences and epochs after a session was forgotten, and after its key was lost', async () => {
    const name = freshName()
    const first = await a.claim(name)
    await first.keep(entryAt(first.nextEpoch, FAR))
    const kept = first.nextEpoch - 1
    await first.forget()
    await first[Symbol.asyncDispose]()
    const second = await a.claim(name)
    await second[Symbol.asyncDispose]()
    expect(second.entry).toBe(null)
    expect([second.fence > first.fence, second.nextEpoch > kept]).toEqual([true, true])
    await a.redis.del(sessionKey(name))
    await using third = await a.claim(name)
    expect([third.fence > second.fence, third.nextEpoch > kept]).toEqual([true, true])
  })

  it('throws queue_unavailable when the server does not answer in time', async () => {
    const own = await isolatedRedis()
    const open = openSessions(own.url, { timeoutMs: 200 })
    await open.redis.ping()
    await own.stop()
    await expect(open.claim(freshName())).rejects.toMatchObject({ code: 'queue_unavailable' })
    open.close()
  })
})

describe('a lease', () => {
  it('aborts its signal before another worker gets the session, when no renewal is answered', async () => {
    const own = await isolatedRedis()
    const [slow, quick] = [openSessions(own.url, { leaseMs: LEASE_MS }), openSessions(own.url)]
    const name = freshName()
    const lease = await slow.claim(name)
    slow.redis.disconnect()
    const waiting = quick.claim(name, 30_000)
    const told = once(lease.signal, 'abort').then(() => 'told')
    expect(await Promise.race([told, waiting.then(() => 'taken')])).toBe('told')
    await expect(lease.keep(entryAt(1, FAR))).rejects.toMatchObject({ code: 'fenced' })
    await (await waiting)[Symbol.asyncDispose]()
    quick.close()
    await own.stop()
  })

  it('is renewed for as long as it is held', async () => {
    const open = openSessions(server.url, { leaseMs: LEASE_MS })
    const name = freshName()
    await using lease = await open.claim(name)
    await expect(b.claim(name, 2 * LEASE_MS)).rejects.toMatchObject({ code: 'conflict' })
    expect(lease.signal.aborted).toBe(false)
    await lease.keep(entryAt(lease.nextEpoch, FAR))
    await lease[Symbol.asyncDispose]()
    open.close()
  })

  it('writes nothing after another worker has claimed the session', async () => {
    const name = freshName()
    const first = await a.claim(name)
    await first.keep(entryAt(first.nextEpoch, FAR))
    // As if the process had been suspended: the lease is over, and its holder has not noticed.
    await a.redis.hset(sessionKey(name), 'till', 0)
    await using second = await b.claim(name)
    const entry = entryAt(second.nextEpoch, FAR)
    await second.keep(entry)
    await expect(first.keep(entryAt(first.nextEpoch, FAR))).rejects.toMatchObject({ code: 'fenced' })
    expect(first.signal.aborted).toBe(true)
    await expect(first.forget()).rejects.toMatchObject({ code: 'fenced' })
    await first[Symbol.asyncDispose]()
    expect(await a.sessions.find(name)).toMatchObject({ ...entry, holder: b.worker })
  })

  it('expires when its holder is killed', async () => {
    const name = freshName()
    const child: ChildProcess = fork(new URL('hold-until-killed.ts', import.meta.url), [
      server.url,
      JSON.stringify(name),
    ])
    await once(child, 'message')
    await expect(a.claim(name)).rejects.toMatchObject({ code: 'conflict' })
    child.kill('SIGKILL')
    await using lease = await a.claim(name, 30_000)
    expect(lease.entry).toMatchObject({ handle: { id: 'of-the-dead' } })
  })

  it('continues after a server restart that kept its data', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'cofferdam-sessions-'))
    let own = await startRedis({ dataDir, durable: true })
    const [open, other] = [openSessions(own.url), openSessions(own.url)]
    const name = freshName()
    await using lease = await open.claim(name)
    const entry = entryAt(lease.nextEpoch, FAR)
    await lease.keep(entry)
    await own.stop()
    own = await startRedis({ dataDir, durable: true })
    await expect(other.claim(name)).rejects.toMatchObject({ code: 'conflict' })
    await lease.keep({ ...entry, usedAtMs: entry.usedAtMs + 1 })
    await lease[Symbol.asyncDispose]()
    await using next = await other.claim(name)
    expect([next.entry?.sessionId, next.fence > lease.fence]).toEqual([entry.sessionId, true])
    await next[Symbol.asyncDispose]()
    open.close()
    other.close()
    await own.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })

  it('survives a server restart that lost all data, and writes its entry back', async () => {
    const own = await isolatedRedis()
    const open = openSessions(own.url, { leaseMs: 4500 })
    const name = freshName()
    await using lease = await open.claim(name)
    const entry = entryAt(lease.nextEpoch, FAR)
    await lease.keep(entry)
    await open.redis.flushall()
    await expect.poll(async () => await open.sessions.find(name), { timeout: 20_000 }).toMatchObject(entry)
    expect(lease.signal.aborted).toBe(false)
    expect((await open.sessions.list(name.tenantId)).sessions).toHaveLength(1)
    open.close()
    await own.stop()
  })

  it('writes its entry back with a later renewal when the first one failed', async () => {
    const own = await isolatedRedis()
    const open = openSessions(own.url, { leaseMs: 6000, timeoutMs: 500 })
    const name = freshName()
    await using lease = await open.claim(name)
    const entry = entryAt(lease.nextEpoch, FAR)
    await lease.keep(entry)
    // The first write of the deadline is never answered.
    const send = open.redis.sendCommand.bind(open.redis)
    let lost = 0
    open.redis.sendCommand = (command, stream) =>
      command.name === 'zadd' && (lost += 1) === 1 ? command.promise : send(command, stream)
    await open.redis.flushall()
    await expect.poll(async () => await open.sessions.find(name), { timeout: 20_000 }).toMatchObject(entry)
    expect([lost > 1, lease.signal.aborted]).toEqual([true, false])
    open.close()
    await own.stop()
  })

  it('writes back its entry or its deadline when one shard lost it', async () => {
    const open = openSessions(server.url, { leaseMs: 4500 })
    const name = freshName()
    await using lease = await open.claim(name)
    const entry = entryAt(lease.nextEpoch, FAR)
    await lease.keep(entry)
    const found = async () => await Array.fromAsync(b.sessions.entries(name.backend))
    await open.redis.hdel(sessionKey(name), 'entry')
    await expect.poll(found, { timeout: 20_000 }).toMatchObject([entry])
    await open.redis.del(`{cofferdam}:sessions-due:${name.backend}`)
    await expect.poll(found, { timeout: 20_000 }).toMatchObject([entry])
    await lease[Symbol.asyncDispose]()
    open.close()
  })

  it('is lost if another worker claims the session first after such a restart', async () => {
    const own = await isolatedRedis()
    const [former, next] = [openSessions(own.url, { leaseMs: 4500 }), openSessions(own.url)]
    const name = freshName()
    const lease = await former.claim(name)
    // The commands of the former holder arrive after the next claim.
    const send = former.redis.sendCommand.bind(former.redis)
    const there = Promise.withResolvers<undefined>()
    former.redis.sendCommand = (command, stream) => {
      void there.promise.then(() => send(command, stream))
      return command.promise
    }
    await next.redis.flushall()
    await using later = await next.claim(name)
    there.resolve(undefined)
    expect(later.fence).toBeGreaterThan(lease.fence)
    await expect.poll(() => lease.signal.aborted, { timeout: 20_000 }).toBe(true)
    await expect(lease.keep(entryAt(lease.nextEpoch, FAR))).rejects.toMatchObject({ code: 'fenced' })
    await later[Symbol.asyncDispose]()
    former.close()
    next.close()
    await own.stop()
  })
})

describe('overdue sessions', () => {
  const PAST = 1_700_000_001_000

  it('are listed after their own or their vendor’s deadline, and only while nobody holds them', async () => {
    const name = freshName()
    const lease = await a.claim(name)
    await lease.keep({ ...entryAt(lease.nextEpoch, FAR), expiresAtMs: PAST })
    expect(await b.sessions.overdue(name.backend, 10)).toEqual([])
    await lease[Symbol.asyncDispose]()
    // `overdue` has postponed the next check of the session to the end of the lease. This makes it due now.
    await a.redis.zadd(`{cofferdam}:sessions-due:${name.backend}`, PAST, `${name.tenantId}:main`)
    expect(await b.sessions.overdue(name.backend, 10)).toEqual([name])
    const reaper = await b.claim(name)
    await reaper.forget()
    await reaper[Symbol.asyncDispose]()
    // Lists the deleted session as due again. The next check removes this entry.
    await a.redis.zadd(`{cofferdam}:sessions-due:${name.backend}`, PAST, `${name.tenantId}:main`)
    expect(await b.sessions.overdue(name.backend, 10)).toEqual([])
    expect(await a.redis.zcard(`{cofferdam}:sessions-due:${name.backend}`)).toBe(0)
  })

  it('do not block others: each is listed again after a pause, or at a new deadline after use', async () => {
    const one = freshName()
    const names = ['s1', 's2', 's3'].map((key) => ({ ...one, key }))
    for (const [at, name] of names.entries()) {
      await using lease = await a.claim(name)
      await lease.keep(entryAt(lease.nextEpoch, PAST + at))
    }
    expect(await b.sessions.overdue(one.backend, 2)).toEqual(names.slice(0, 2))
    expect(await a.sessions.overdue(one.backend, 2)).toEqual(names.slice(2))
    expect(await b.sessions.overdue(one.backend, 2)).toEqual([])
    const scores = await a.redis.zrange(`{cofferdam}:sessions-due:${one.backend}`, '0', '-1', 'WITHSCORES')
    const [seconds] = await a.redis.time()
    for (const score of scores.filter((_, at) => at % 2 === 1)) {
      expect(Number(score)).toBeGreaterThan(Number(seconds) * 1000)
      expect(Number(score)).toBeLessThanOrEqual((Number(seconds) + 1) * 1000 + 600_000)
    }
    await using used = await a.claim(names[1] ?? one)
    expect(used.isOverdue).toBe(true)
    await used.keep(entryAt(used.nextEpoch, PAST + 9))
    await used[Symbol.asyncDispose]()
    expect(await b.sessions.overdue(one.backend, 2)).toEqual([names[1]])
  })

  it('include neither sessions with a later new deadline nor those of another backend', async () => {
    const name = freshName()
    await using lease = await a.claim(name)
    await lease.keep(entryAt(lease.nextEpoch, PAST))
    await lease.keep(entryAt(lease.nextEpoch, FAR))
    await lease[Symbol.asyncDispose]()
    expect(await b.sessions.overdue(name.backend, 10)).toEqual([])
    expect(await b.sessions.overdue('other', 10)).toEqual([])
  })

  it('include a session whose holder died between writing the deadline and the entry', async () => {
    const name = freshName()
    const lease = await a.claim(name)
    await lease.keep(entryAt(lease.nextEpoch, PAST))
    await lease[Symbol.asyncDispose]()
    await a.redis.zadd(`{cofferdam}:sessions-due:${name.backend}`, 5, `${name.tenantId}:main`)
    expect(await b.sessions.overdue(name.backend, 10)).toEqual([name])
  })
})

describe('the entries of a backend', () => {
  it('are exactly the existing ones, of every tenant, over several pages', async () => {
    const { backend } = freshName()
    // More than one step of Redis' scan returns.
    const names = Array.from({ length: 700 }, (_, number) => ({ ...freshName(), backend, key: `s${number}` }))
    const leases = await Promise.all(names.map((name) => a.claim(name)))
    await Promise.all(leases.map((lease) => lease.keep(entryAt(lease.nextEpoch, FAR))))
    const [held, ...others] = leases
    await others[0]?.forget()
    await Promise.all(others.map(async (lease) => await lease[Symbol.asyncDispose]()))
    const other = await a.claim(freshName())
    await other.keep(entryAt(other.nextEpoch, FAR))

    const found = await Array.fromAsync(b.sessions.entries(backend))
    expect(new Set(found.map(({ key }) => key))).toEqual(
      new Set(names.map(({ key }) => key).filter((key) => key !== 's1')),
    )
    expect(found.find(({ key }) => key === 's0')?.holder).toBe(a.worker)
    await held?.[Symbol.asyncDispose]()
    await other[Symbol.asyncDispose]()
  })

  it('cannot be read while the server does not answer', async () => {
    const away = openSessions(server.url, { timeoutMs: 50 })
    away.close()
    await expect(Array.fromAsync(away.sessions.entries('any'))).rejects.toMatchObject({
      code: 'queue_unavailable',
    })
  })
})

describe('an entry of a newer release', () => {
  it('hides no other session, and is neither ended nor removed', async () => {
    const name = freshName()
    const known = { ...name, key: 'known' }
    for (const one of [name, known]) {
      await using lease = await a.claim(one)
      await lease.keep(entryAt(lease.nextEpoch, 1_700_000_001_000))
    }
    const written = (await a.redis.hget(sessionKey(name), 'entry')) ?? ''
    await a.redis.hset(sessionKey(name), 'entry', written.replace(/"scope":"\w+"/, '"scope":"of-tomorrow"'))

    expect((await b.sessions.list(name.tenantId)).sessions).toMatchObject([{ key: 'known' }])
    expect(await b.sessions.find(name)).toBeNull()
    expect(await b.sessions.overdue(name.backend, 10)).toEqual([known])
    await expect(Array.fromAsync(b.sessions.entries(name.backend))).rejects.toMatchObject({
      code: 'internal',
    })
    expect(await a.redis.zcard(`{cofferdam}:sessions-due:${name.backend}`)).toBe(2)
    expect(await a.redis.zcard(`cfd:{${name.tenantId}}:sessions`)).toBe(2)
  })
})

describe('the list of a tenant', () => {
  it('has the newest first, in pages, with each session once', async () => {
    const tenantId = freshName().tenantId
    const entry = entryAt(1, FAR)
    for (let i = 0; i < 1010; i++) {
      const name = { tenantId, backend: 'local', key: `s${String(i).padStart(4, '0')}` }
      const made = { ...entry, createdAtMs: entry.createdAtMs + Math.floor(i / 3) }
      await a.sessions.announce(name, a.worker, { entry: made, isBusy: false })
    }
    const pages: string[][] = []
    for (let cursor: string | undefined; ;) {
      const page = await a.sessions.list(tenantId, cursor)
      pages.push(page.sessions.map(({ key }) => key))
      if (page.cursor === null) break
      cursor = page.cursor
    }
    expect(pages.map((page) => page.length)).toEqual([500, 500, 10])
    expect(new Set(pages.flat()).size).toBe(1010)
    expect([pages[0]?.[0], pages[2]?.at(-1)]).toEqual(['s1009', 's0000'])
  })

  it('omits expired sessions', async () => {
    const name = freshName()
    await a.sessions.announce(name, a.worker, { entry: entryAt(1, FAR), isBusy: true })
    expect((await a.sessions.list(name.tenantId)).sessions).toMatchObject([
      { key: 'main', owner: a.worker, holder: a.worker },
    ])
    await a.redis.del(sessionKey(name))
    expect((await a.sessions.list(name.tenantId)).sessions).toEqual([])
    expect(await a.redis.zcard(`cfd:{${name.tenantId}}:sessions`)).toBe(0)
  })

  it('refuses an invalid cursor', async () => {
    await expect(a.sessions.list('t', 'nonsense')).rejects.toMatchObject({ code: 'invalid_request' })
  })
})

describe('a session that only its worker reaches', () => {
  it('is listed while its worker announces it, and no other worker can remove it', async () => {
    const name = freshName()
    await a.sessions.announce(name, a.worker, { entry: entryAt(1, FAR), isBusy: false })
    expect(await a.redis.pttl(sessionKey(name))).toBeLessThanOrEqual(60_000)
    await a.sessions.announce(name, b.worker, { entry: entryAt(2, FAR), isBusy: false })
    await a.sessions.announce(name, a.worker, null)
    expect(await a.sessions.find(name)).toMatchObject({ owner: b.worker, holder: null })
    await a.sessions.announce(name, b.worker, null)
    expect(await a.sessions.find(name)).toBe(null)
  })

  it('is listed again by its worker after it was paused and resumed', async () => {
    const name = freshName()
    await a.sessions.announce(name, a.worker, { entry: entryAt(1, FAR), isBusy: true })
    const pausing = await a.claim(name)
    await a.sessions.announce(name, a.worker, { entry: entryAt(1, FAR), isBusy: true })
    await pausing.keep(entryAt(pausing.nextEpoch, FAR))
    await pausing[Symbol.asyncDispose]()
    await a.sessions.announce(name, a.worker, null)
    expect(await a.sessions.find(name)).toMatchObject({ owner: null, holder: null })
    const resuming = await b.claim(name)
    await resuming.forget()
    await b.sessions.announce(name, b.worker, { entry: entryAt(1, FAR), isBusy: true })
    expect(await a.sessions.find(name)).toBe(null)
    await resuming[Symbol.asyncDispose]()
    await b.sessions.announce(name, b.worker, { entry: entryAt(1, FAR), isBusy: false })
    expect(await a.sessions.find(name)).toMatchObject({ owner: b.worker, holder: null })
  })

  it('is announced without overwriting a claimed session', async () => {
    const name = freshName()
    await using lease = await a.claim(name)
    await lease.keep(entryAt(lease.nextEpoch, FAR))
    await b.sessions.announce(name, b.worker, { entry: entryAt(1, FAR), isBusy: false })
    expect(await a.sessions.find(name)).toMatchObject({ owner: null, holder: a.worker })
  })
})

describe('a call that timed out', () => {
  it('removes nothing that the next holder wrote when it runs late', async () => {
    const name = freshName()
    const slow = openSessions(server.url, { timeoutMs: 1000 })
    await using lease = await slow.claim(name)
    await lease.keep(entryAt(lease.nextEpoch, FAR))
    const due = `{cofferdam}:sessions-due:${name.backend}`
    // The lease's commands for the deadline are delayed until `arrive` is called.
    const send = slow.redis.sendCommand.bind(slow.redis)
    const late: (() => unknown)[] = []
    slow.redis.sendCommand = (command, stream) => {
      if (!command.args.flat().includes(due)) return send(command, stream)
      late.push(() => send(command, stream))
      return command.promise
    }
    await lease.forget()
    await lease[Symbol.asyncDispose]()
    await using next = await b.claim(name)
    await next.keep(entryAt(next.nextEpoch, FAR + 1))
    expect(late).toHaveLength(1)
    await Promise.all(late.map((arrive) => arrive()))
    expect(Number(await b.redis.zscore(due, `${name.tenantId}:${name.key}`))).toBe(FAR + 1)
    slow.close()
  })
})
