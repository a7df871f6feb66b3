import { expect, it } from 'vitest'
import type { Row } from './row.ts'
import { goneOnes, lastAttempts, MOST_ARRIVED, withArrived, withRows } from './row-list.ts'

const row = (id: string, more: Partial<Row> = {}): Row => ({
  id,
  tenantId: 'acme',
  agentId: 'a',
  status: 'running',
  ending: null,
  attempt: 1,
  backend: null,
  isolation: null,
  exitCode: null,
  cost: null,
  enqueuedAtMs: 0,
  startedAtMs: null,
  endedAtMs: null,
  position: null,
  progress: null,
  ...more,
})
const ended = (id: string, attempt = 1): Row => row(id, { status: 'ended', ending: 'ok', attempt })
const ids = (rows: readonly Row[]): string[] => rows.map(({ id }) => id)

it('changes a row in its place', () => {
  const list = withRows({ shown: [row('b'), row('a')], arrived: [] }, [ended('a')])
  expect(ids(list.shown)).toEqual(['b', 'a'])
  expect(list.shown[1]?.status).toBe('ended')
  expect(list.arrived).toEqual([])
})

it('keeps an ending against a late answer about the same attempt, and gives way to the next attempt', () => {
  const list = { shown: [ended('a')], arrived: [] }
  expect(withRows(list, [row('a')]).shown[0]?.status).toBe('ended')
  expect(withRows(list, [row('a', { attempt: 2 })]).shown[0]?.status).toBe('running')
})

it('gathers new rows, the newest first, and lets them in at the top', () => {
  const first = withRows({ shown: [row('a')], arrived: [] }, [row('c'), row('b')])
  const second = withRows(first, [row('d'), row('b'), ended('c')])
  expect(ids(second.shown)).toEqual(['a'])
  expect(ids(second.arrived)).toEqual(['d', 'c', 'b'])
  expect(ids(withArrived(second).shown)).toEqual(['d', 'c', 'b', 'a'])
  expect(second.arrived[1]?.status).toBe('ended')
})

it('bounds what it gathers', () => {
  const many = Array.from({ length: 500 }, (_, index) => row(`x${index}`))
  expect(withRows({ shown: [], arrived: [] }, many).arrived).toHaveLength(MOST_ARRIVED)
})

it('shows an execution once, with its last attempt', () => {
  expect(lastAttempts([ended('a', 2), ended('b'), ended('a', 1)])).toEqual([ended('a', 2), ended('b')])
})

it('finds rows that stopped being live', () => {
  const list = { shown: [row('a'), ended('b'), row('c')], arrived: [row('d')] }
  expect(goneOnes(list, [row('c')])).toEqual(['a', 'd'])
})
