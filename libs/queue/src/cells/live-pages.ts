/**
 * Pages of the live executions of all cells. Each page has the newest remaining ones of each cell, sorted
 * with the newest first. So a later page can have executions that are newer than the last one of the page
 * before. Each execution is on one page only.
 */
import type { LivePage, LivePageAsked } from '../live-page.ts'
import type { Producer } from '../producer.ts'
import { askCells } from './in-cell.ts'

/** `1=17,4=`: the cells that have more, each with its own cursor, '' for its beginning. */
const SEPARATOR = ','

/** Cells that do not answer are left out of the page and of those after it. */
export async function liveOfCells(
  producers: ReadonlyMap<number, Producer>,
  asked: LivePageAsked,
): Promise<LivePage> {
  const open = cursorsOf(producers, asked.before)
  // Ask at most `limit` cells, so that each can give at least one execution and the page never exceeds
  // `limit`.
  const now = [...open].slice(0, asked.limit)
  const share = Math.floor(asked.limit / Math.max(1, now.length))
  const cells = new Map(
    now.flatMap(([cell, before]) => {
      const producer = producers.get(cell)
      return producer === undefined ? [] : [[cell, { producer, before }] as const]
    }),
  )
  const { answers } = await askCells(cells, ({ producer, before }) => {
    const { before: _all, ...rest } = asked
    return producer.livePage(null, { ...rest, limit: share, ...(before === '' ? {} : { before }) })
  })
  const left = [
    ...answers.flatMap(({ cell, answer }) => (answer.next === null ? [] : [`${cell}=${answer.next}`])),
    ...[...open].slice(asked.limit).map(([cell, before]) => `${cell}=${before}`),
  ]
  return {
    states: answers
      .flatMap(({ answer }) => answer.states)
      .sort((a, b) => Date.parse(b.enqueued_at) - Date.parse(a.enqueued_at)),
    next: left.length === 0 ? null : left.join(SEPARATOR),
  }
}

function cursorsOf(producers: ReadonlyMap<number, Producer>, before = ''): Map<number, string> {
  if (before === '') return new Map([...producers.keys()].map((cell) => [cell, '']))
  return new Map(
    before.split(SEPARATOR).map((part) => {
      const at = part.indexOf('=')
      return [Number(part.slice(0, at)), part.slice(at + 1)]
    }),
  )
}
