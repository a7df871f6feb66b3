/**
 * Pages with opaque cursors. A cursor names the last or first item of a page, so a list may grow between two
 * pages.
 */
import { z } from 'zod'
import { badRequest } from './wire-errors.ts'

export interface Page<Item> {
  data: Item[]
  /** Null on the last page. */
  next_page: string | null
  /** Null on the first page. */
  prev_page: string | null
}

/** Query of a list: `limit` between 1 and `max` (default 20, which Anthropic does not publish) and `page`. */
export const pageQuery = (max: number) =>
  z.object({
    limit: z.coerce.number().int().min(1).max(max).default(20),
    page: z.string().max(200).optional(),
  })

const cursor = (side: 'after' | 'before', id: string): string =>
  Buffer.from(JSON.stringify([side, id])).toString('base64url')

const cursorSchema = z.tuple([z.enum(['after', 'before']), z.string()])

/** The page of `items` that the query asks for. Throws a 400 for a cursor that names no item of the list. */
export function pageOf<Item>(
  items: readonly Item[],
  idOf: (item: Item) => string,
  { limit, page }: { limit: number; page?: string | undefined },
): Page<Item> {
  const from = page === undefined ? 0 : startOf(items, idOf, page, limit)
  const data = items.slice(from, from + limit)
  const [first, last] = [data[0], data.at(-1)]
  return {
    data,
    next_page: last === undefined || from + limit >= items.length ? null : cursor('after', idOf(last)),
    prev_page: first === undefined || from === 0 ? null : cursor('before', idOf(first)),
  }
}

function startOf<Item>(
  items: readonly Item[],
  idOf: (item: Item) => string,
  page: string,
  limit: number,
): number {
  let parsed: unknown
  try {
    parsed = JSON.parse(Buffer.from(page, 'base64url').toString('utf8'))
  } catch {
    throw badRequest('page: not a cursor of this list')
  }
  const known = cursorSchema.safeParse(parsed)
  const at = known.success ? items.findIndex((item) => idOf(item) === known.data[1]) : -1
  if (!known.success || at < 0) throw badRequest('page: not a cursor of this list')
  return known.data[0] === 'after' ? at + 1 : Math.max(0, at - limit)
}
