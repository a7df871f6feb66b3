/** Events of changes, as policies of tenants and routines have them. */
import { parse } from '@cofferdam/contract'
import { z } from 'zod'
import { table } from './table.ts'
import type { Terminal } from './terminal.ts'

const eventsSchema = z.object({
  events: z.array(
    z.object({
      created_at: z.string(),
      event_type: z.string(),
      actor: z.string(),
      source: z.string(),
      before: z.unknown(),
      after: z.unknown(),
    }),
  ),
})

/** Prints an answer of events, newest first; of a change of many fields those that differ. */
export function showChanges(answer: unknown, terminal: Terminal): void {
  const { events } = parse(eventsSchema, answer, 'the answer')
  terminal.value(events)
  const rows = events.map(({ created_at, event_type, actor, source, before, after }) => {
    const [was, is] = different(before, after)
    return [created_at, event_type, actor, source, `${JSON.stringify(was)} → ${JSON.stringify(is)}`]
  })
  for (const text of table(['TIME', 'WHAT', 'WHO', 'BY', 'BEFORE → AFTER'], rows)) terminal.line(text)
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
