/** Tables for people. */
import { parse } from '@cofferdam/contract'
import { z } from 'zod'
import type { Terminal } from './terminal.ts'

/** Aligns rows under their headings. Null is shown as `-`. */
export function table(
  headings: readonly string[],
  rows: readonly (readonly (string | number | null)[])[],
): string[] {
  const cells = [headings, ...rows].map((row) => row.map((cell) => (cell === null ? '-' : String(cell))))
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)))
  return cells.map((row) => alignRow(row, widths))
}

/** One row of a table with the given widths. A longer cell moves the rest of its line to the right. */
export const alignRow = (cells: readonly string[], widths: readonly number[]): string =>
  cells
    .map((cell, column) => cell.padEnd(widths[column] ?? 0))
    .join('  ')
    .trimEnd()

const eventsSchema = z.object({
  events: z.array(
    z.object({
      created_at: z.string(),
      tenant_id: z.string().nullish(),
      event_type: z.string(),
      actor: z.string(),
      via: z.string().nullish(),
      source: z.string(),
      before: z.unknown(),
      after: z.unknown(),
    }),
  ),
})

/** Prints the changes that an answer of the API lists, newest first, each with the fields that differ. */
export function showChanges(answer: unknown, terminal: Terminal, { namesTenant = false } = {}): void {
  const { events } = parse(eventsSchema, answer, 'the answer')
  terminal.value(events)
  const rows = events.map(({ created_at, tenant_id, event_type, actor, source, via, before, after }) => {
    const [was, is] = different(before, after)
    return [
      created_at,
      ...(namesTenant ? [tenant_id ?? null] : []),
      event_type,
      actor,
      via ?? source,
      `${JSON.stringify(was)} → ${JSON.stringify(is)}`,
    ]
  })
  const heads = ['TIME', ...(namesTenant ? ['TENANT'] : []), 'WHAT', 'WHO', 'BY', 'BEFORE → AFTER']
  terminal.lines(table(heads, rows))
}

function different(before: unknown, after: unknown): [unknown, unknown] {
  if (!isObject(before) || !isObject(after)) return [before, after]
  const names = Object.keys({ ...before, ...after }).filter(
    (name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  )
  const only = (all: Record<string, unknown>) =>
    Object.fromEntries(names.filter((name) => name in all).map((name) => [name, all[name]]))
  return [only(before), only(after)]
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
