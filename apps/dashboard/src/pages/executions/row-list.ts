/**
 * The rows of the list and their order. A row keeps its place when it changes, so that nothing jumps while
 * one reads. New rows gather in `arrived` until they are let in.
 */
import type { Row } from './row.ts'

export interface RowList {
  /** What is shown, from the top. */
  shown: readonly Row[]
  /** What came since, the newest first. */
  arrived: readonly Row[]
}

export const NO_ROWS: RowList = { shown: [], arrived: [] }

/** The most rows in `arrived`. When it is full, letting the rows in loads the whole list again. */
export const MOST_ARRIVED = 200

/** Whether `next` says more about the same execution than `before`. */
function isNewer(before: Row, next: Row): boolean {
  if (next.attempt !== before.attempt) return next.attempt > before.attempt
  // A live row never replaces an ended one: it is from an answer that came late.
  return before.status !== 'ended' || next.status === 'ended'
}

/** The last attempt of each execution. Executions are in the order in which the rows first name them. */
export function lastAttempts(rows: readonly Row[]): Row[] {
  const byId = new Map<string, Row>()
  for (const row of rows) {
    const known = byId.get(row.id)
    if (known === undefined || isNewer(known, row)) byId.set(row.id, row)
  }
  return [...byId.values()]
}

/** Adds rows that came in to the list. Known rows are updated in place, and others go to the arrived ones. */
export function withRows(list: RowList, came: readonly Row[]): RowList {
  const fresh = new Map(lastAttempts(came).map((row) => [row.id, row]))
  if (fresh.size === 0) return list
  const update = (row: Row): Row => {
    const next = fresh.get(row.id)
    return next !== undefined && isNewer(row, next) ? next : row
  }
  const shown = list.shown.map(update)
  const arrived = list.arrived.map(update)
  const known = new Set([...shown, ...arrived].map(({ id }) => id))
  const others = [...fresh.values()].filter(({ id }) => !known.has(id))
  return { shown, arrived: [...others, ...arrived].slice(0, MOST_ARRIVED) }
}

/** The list after the arrived rows were put at its top. */
export const withArrived = ({ shown, arrived }: RowList): RowList => ({
  shown: [...arrived, ...shown],
  arrived: [],
})

/** IDs of rows that are shown as live and are not among the live ones any more. */
export function goneOnes(list: RowList, live: readonly Row[]): string[] {
  const ids = new Set(live.map(({ id }) => id))
  return [...list.shown, ...list.arrived]
    .filter(({ id, status }) => status !== 'ended' && !ids.has(id))
    .map(({ id }) => id)
}
