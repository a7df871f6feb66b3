import { idToUuid, newExecutionId } from '@cofferdam/contract'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { FeedFilter } from '../src/index.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt, type Sample } from './sample-attempt.ts'

const HOUR_MS = 3_600_000
let t: TestStore

beforeAll(async () => {
  t = await openTestStore()
})
afterAll(() => t.close())

const record = async (sample: Sample): Promise<string> => {
  const one = sampleAttempt(sample)
  await t.store.record(one)
  return `${one.result.execution_id}/${one.result.attempt}`
}

/** Reads until the feed is drained. */
async function drain(filter: FeedFilter): Promise<{ keys: string[]; cursor: string }> {
  const keys: string[] = []
  let after = filter.after
  for (;;) {
    const page = await t.store.feed({ ...filter, after })
    expect(page.rows.length).toBeLessThanOrEqual(filter.limit)
    keys.push(...page.rows.map((row) => `${row.execution_id}/${row.attempt}`))
    after = page.cursor
    if (page.drained) return { keys, cursor: after }
  }
}

/** Reads until `count` rows came. Open transactions of other test files hold the feed back. */
async function drainTo(count: number, filter: FeedFilter): Promise<{ keys: string[]; cursor: string }> {
  const keys: string[] = []
  let cursor = filter.after
  await vi.waitFor(
    async () => {
      const more = await drain({ ...filter, after: cursor })
      keys.push(...more.keys)
      cursor = more.cursor
      expect(keys.length).toBeGreaterThanOrEqual(count)
    },
    { timeout: 20_000, interval: 20 },
  )
  return { keys, cursor }
}

describe('feed', () => {
  it('has rows in the order of recording, so a long run comes when it ended', async () => {
    const tenantId = 'order'
    const now = Date.now()
    const [long, short] = [newExecutionId(now - 20 * HOUR_MS), newExecutionId(now)]
    const start = (await t.store.feed({ tenantId, after: 'now', limit: 10 })).cursor
    const first = await record({ tenant: tenantId, id: short, atMs: now })
    const one = await drainTo(1, { tenantId, after: start, limit: 10 })
    expect(one.keys).toEqual([first])
    const late = await record({ tenant: tenantId, id: long, atMs: now - 20 * HOUR_MS })
    const again = await record({ tenant: tenantId, id: short, atMs: now, attempt: 2 })
    const two = await drainTo(2, { tenantId, after: one.cursor, limit: 1 })
    expect(two.keys).toEqual([late, again])
    expect((await drain({ tenantId, after: two.cursor, limit: 10 })).keys).toEqual([])
    expect((await drain({ tenantId, after: 'beginning', limit: 2 })).keys).toEqual([first, late, again])
  })

  it('misses no row of a transaction that began before others and ended after them', async () => {
    const tenantId = 'slow'
    const start = (await t.store.feed({ tenantId, after: 'now', limit: 10 })).cursor
    const slow = new pg.Client({ connectionString: t.url })
    await slow.connect()
    try {
      const model = await record({ tenant: tenantId })
      // The slow writer gets its transaction number before the fast one starts.
      await slow.query('begin')
      const id = newExecutionId()
      await copyOf(slow, model, id)
      const fast = await record({ tenant: tenantId })
      const during = await drain({ tenantId, after: start, limit: 10 })
      expect(during.keys).not.toContain(fast)
      await slow.query('commit')
      const after = await drainTo(3 - during.keys.length, { tenantId, after: during.cursor, limit: 10 })
      expect([...during.keys, ...after.keys]).toEqual([model, `${id}/1`, fast])
    } finally {
      await slow.end()
    }
  })

  it('misses and repeats nothing with eight writers and two readers', async () => {
    const tenantId = 'busy'
    const start = (await t.store.feed({ tenantId, after: 'now', limit: 10 })).cursor
    const written: string[] = []
    let writing = true
    const writers = Promise.all(
      Array.from({ length: 8 }, async (_, writer) => {
        for (let n = 0; n < 60; n += 1)
          written.push(
            await record({ tenant: tenantId, atMs: Date.now() - ((writer * 7 + n) % 11) * HOUR_MS }),
          )
      }),
    ).finally(() => {
      writing = false
    })
    const reader = async (limit: number): Promise<string[]> => {
      const seen: string[] = []
      let after = start
      for (;;) {
        const last = !writing
        const page = await drain({ tenantId, after, limit })
        seen.push(...page.keys)
        after = page.cursor
        if (last && seen.length >= written.length) return seen
      }
    }
    const [one, two] = await Promise.all([reader(7), reader(500), writers])
    expect(written).toHaveLength(480)
    expect(one.toSorted()).toEqual(written.toSorted())
    expect(two).toEqual(one)
  })

  it('shows a tenant only its own rows, and accepts the filters of a list', async () => {
    const start = (await t.store.feed({ tenantId: null, after: 'now', limit: 10 })).cursor
    const mine = await record({ tenant: 'mine', ending: 'oom' })
    const fine = await record({ tenant: 'mine' })
    const theirs = await record({ tenant: 'theirs' })
    const of = async (filter: Partial<FeedFilter>): Promise<string[]> =>
      (await drain({ tenantId: 'mine', after: start, limit: 10, ...filter })).keys
    await drainTo(2, { tenantId: 'mine', after: start, limit: 10 })
    await drainTo(1, { tenantId: 'theirs', after: start, limit: 10 })
    expect(await of({})).toEqual([mine, fine])
    expect(await of({ exitStatus: 'oom' })).toEqual([mine])
    expect(await of({ tenantId: null })).toEqual([mine, fine, theirs])
    expect(await of({ tenantId: null, ending: 'oom' })).toEqual([mine])
  })

  it.each([
    [{ after: 'bm9wZQ' }, 'cursor'],
    [
      { after: Buffer.from(`${'9'.repeat(18)}.${idToUuid(newExecutionId())}.1`).toString('base64url') },
      'restored',
    ],
    [{ after: 'now', limit: 0 }, 'limit'],
  ])('refuses %j', async (filter, word) => {
    await expect(t.store.feed({ tenantId: 'acme', limit: 5, ...filter })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(word),
    })
  })
})

/** Copies a recorded row under another ID through `client`, as a writer would insert it. */
async function copyOf(client: pg.Client, key: string, id: string): Promise<void> {
  const uuid = id.slice(4)
  const values = [uuid, key.split('/')[0]?.slice(4)]
  await client.query(`set local role cofferdam_all_tenants`)
  await client.query(
    `insert into attempts (execution_id, attempt, expires_on)
     select $1::uuid, 1, expires_on from attempts where execution_id = $2::uuid`,
    values,
  )
  const { fields } = await client.query('select * from sandbox_invocations limit 0')
  const columns = fields.map(({ name }) => name)
  const copied = columns.map((name) =>
    name === 'execution_id'
      ? '$1::uuid'
      : name === 'created_at'
        ? 'to_timestamp(uuid7_ms($1::uuid) / 1000.0)'
        : name,
  )
  await client.query(
    `insert into sandbox_invocations (${columns.join(', ')})
     select ${copied.join(', ')} from sandbox_invocations where execution_id = $2::uuid`,
    values,
  )
}
