/** Lists of audit rows, of executions and of the feed by session, kind of program, and duration. */
import type { AttemptRecord, ProgramKind } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { InvocationFilter } from '../src/index.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt } from './sample-attempt.ts'

let t: TestStore
const SESSIONS = ['a', 'b'].map((digit) => `ses_${digit.repeat(32)}`)
/** Kind, session and duration of each row. The last is a row of an older release. */
const ROWS = [
  ['script/python', SESSIONS[0], 10],
  ['script/python', null, 5000],
  ['script/bash', SESSIONS[1], 200],
  ['tests', SESSIONS[0], 60_000],
  ['command', null, 0],
  [null, null, 10],
] as const
const ids: string[] = []

function sample([kind, session, duration]: (typeof ROWS)[number], n: number): AttemptRecord {
  const record = sampleAttempt({ atMs: Date.now() - 60_000 + n })
  Object.assign(record.audit, { program_kind: kind, session_id: session, duration_ms: duration })
  return record
}

beforeAll(async () => {
  t = await openTestStore()
  for (const [n, row] of ROWS.entries()) {
    const record = sample(row, n)
    ids.push(record.audit.execution_id)
    await t.store.record(record)
  }
  // Open transactions of other test files hold the feed back.
  const feed = () => t.store.feed({ tenantId: 'acme', limit: 50, after: 'beginning' })
  await vi.waitFor(async () => expect((await feed()).rows).toHaveLength(ROWS.length), 60_000)
})
afterAll(() => t.close())

/** The rows that each list finds, as indexes of ROWS, which must be the same for all. */
async function found(filter: Partial<InvocationFilter>): Promise<number[]> {
  const asked = { tenantId: 'acme', limit: 50, ...filter }
  const [audit, executions, feed] = await Promise.all([
    t.store.listAudit(asked),
    t.store.listExecutions(asked),
    t.store.feed({ ...asked, after: 'beginning' }),
  ])
  const indexes = (rows: readonly { execution_id: string }[]) =>
    rows.map(({ execution_id }) => ids.indexOf(execution_id)).toSorted()
  expect(indexes(executions.rows)).toEqual(indexes(audit.rows))
  expect(indexes(feed.rows)).toEqual(indexes(audit.rows))
  return indexes(audit.rows)
}

describe('lists', () => {
  it('find executions of a session, of a kind of program and of a duration', async () => {
    expect(await found({})).toEqual([0, 1, 2, 3, 4, 5])
    expect(await found({ sessionId: `ses_${'a'.repeat(32)}` })).toEqual([0, 3])
    expect(await found({ sessionId: `ses_${'c'.repeat(32)}` })).toEqual([])
    expect(await found({ programKind: 'script/python' })).toEqual([0, 1])
    expect(await found({ programKind: 'script' })).toEqual([0, 1, 2])
    expect(await found({ programKind: 'command' })).toEqual([4])
    expect(await found({ minDurationMs: 200 })).toEqual([1, 2, 3])
    expect(await found({ maxDurationMs: 10 })).toEqual([0, 4, 5])
    expect(await found({ minDurationMs: 10, maxDurationMs: 200 })).toEqual([0, 2, 5])
    expect(await found({ programKind: 'script', minDurationMs: 100, sessionId: SESSIONS[1] ?? '' })).toEqual([
      2,
    ])
  })

  it('equal a filter of all rows, for random filters', async () => {
    let seed = 7
    const random = (below: number) => {
      seed = (seed * 1_664_525 + 1_013_904_223) % 2 ** 32
      return Math.floor((seed / 2 ** 32) * below)
    }
    const kinds: (ProgramKind | undefined)[] = [undefined, 'script', 'script/bash', 'tests', 'files']
    const durations = [undefined, 0, 10, 11, 200, 5000, 60_001]
    for (let n = 0; n < 25; n += 1) {
      const filter = {
        programKind: kinds[random(kinds.length)],
        sessionId: [undefined, ...SESSIONS][random(3)],
        minDurationMs: durations[random(durations.length)],
        maxDurationMs: durations[random(durations.length)],
      }
      const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined))
      const expected = ROWS.flatMap(([kind, session, duration], index) =>
        (filter.programKind === undefined || `${kind}/`.startsWith(`${filter.programKind}/`)) &&
        (filter.sessionId === undefined || session === filter.sessionId) &&
        duration >= (filter.minDurationMs ?? 0) &&
        duration <= (filter.maxDurationMs ?? Infinity)
          ? [index]
          : [],
      )
      expect([given, await found(given)]).toEqual([given, expected])
    }
  })

  it('show the kind of an ended execution, and nothing for a row of an older release', async () => {
    const { rows } = await t.store.listExecutions({ tenantId: 'acme', limit: 50 })
    const kinds = rows.map(({ execution_id, program_kind }) => [ids.indexOf(execution_id), program_kind])
    expect(Object.fromEntries(kinds)).toEqual(
      Object.fromEntries(ROWS.map(([kind], n) => [n, kind ?? undefined])),
    )
  })
})
