/**
 * Filters and paging of `GET /v2/sandboxes`: `metadata`, `state`, `template`, `startedAfter`, `order`,
 * `limit`, `nextToken`. Every sandbox of the double is running.
 */

/** A sandbox as the list sees it. */
export interface Listed {
  id: string
  template: string
  metadata: Record<string, string>
  startedAt: number
}

/** A query that the service refuses with 400. */
export class BadQuery extends Error {}

const STATES = ['running', 'paused']
const LIMIT_MAX = 100

/** The page for a query; `next` is the token of the following page, or null. Throws BadQuery. */
export function pageOf<Box extends Listed>(
  all: readonly Box[],
  query: URLSearchParams,
): { page: Box[]; next: string | null; total: number } {
  const order = query.get('order') ?? 'desc'
  if (order !== 'asc' && order !== 'desc')
    throw new BadQuery(`Invalid order parameter: unknown order "${order}"`)
  const selects = [byMetadata(query), byState(query), byTemplate(query), byStart(query)]
  const matches = all
    .filter((box) => selects.every((select) => select(box)))
    .toSorted((a, b) => (order === 'asc' ? a.startedAt - b.startedAt : b.startedAt - a.startedAt))
  const token = query.get('nextToken')
  if (token !== null && !/^\d+$/.test(token)) throw new BadQuery('Invalid next token')
  const from = Number(token ?? 0)
  const limit = Math.min(LIMIT_MAX, Number(query.get('limit') ?? LIMIT_MAX))
  const next = from + limit < matches.length ? String(from + limit) : null
  return { page: matches.slice(from, from + limit), next, total: matches.length }
}

type Select = (box: Listed) => boolean

function byMetadata(query: URLSearchParams): Select {
  const filter = query.get('metadata')
  // Like the service's parser: an empty filter is an error.
  if (filter === '') throw new BadQuery('invalid key value pair in query')
  const wanted = pairsIn(filter ?? '')
  return ({ metadata }) => wanted.every(([name, value]) => metadata[name] === value)
}

function byState(query: URLSearchParams): Select {
  const states = query.get('state')?.split(',') ?? STATES
  const unknown = states.find((state) => !STATES.includes(state))
  if (unknown !== undefined) throw new BadQuery(`Invalid state parameter: unknown state "${unknown}"`)
  return () => states.includes('running')
}

function byTemplate(query: URLSearchParams): Select {
  const wanted = query.get('template')
  return ({ template }) => wanted === null || template === wanted
}

function byStart(query: URLSearchParams): Select {
  const text = query.get('startedAfter')
  const after = text === null ? Number.NEGATIVE_INFINITY : Date.parse(text)
  if (Number.isNaN(after)) throw new BadQuery('Invalid startedAfter parameter: it is not a time')
  return ({ startedAt }) => startedAt >= after
}

/**
 * Parses `k=v&k=v`. Keys and values are encoded, and the whole text is encoded again, before the encoding of
 * the query itself. The service reads three encodings (e2b-dev/infra, parseMetadata), and its SDK writes them
 * (npm e2b 2.51.0, SandboxPaginator).
 */
function pairsIn(filter: string): [string, string][] {
  const plain = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '))
  return plain(filter)
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const [name = '', ...value] = pair.split('=')
      return [plain(name), plain(value.join('='))]
    })
}
