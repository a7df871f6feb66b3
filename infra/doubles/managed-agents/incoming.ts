/** What the double reads of a request: its body, its query, and the record that tests see. */
import type { IncomingMessage } from 'node:http'
import type { RequestRecord } from './control-plane.ts'
import { badRequest, WireError } from './wire-errors.ts'

/** The limit of a request to Anthropic's API, from its errors page. */
const BODY_MAX = 32 * 1024 * 1024

/** Headers that the records keep. None holds a credential. */
const KEPT_HEADERS = [
  'anthropic-beta',
  'anthropic-version',
  'anthropic-worker-id',
  'user-agent',
  'x-stainless-helper',
  'x-stainless-retry-count',
]

const tooLarge = (): WireError =>
  new WireError(413, 'request_too_large', `a request has at most ${BODY_MAX} bytes`)

/** The parsed body; undefined if there is none. Throws a 413 if it is too large, a 400 if it is not JSON. */
export async function readBody(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = []
  let size = 0
  // Refuse before the first byte is read. The client then gets the answer instead of a broken connection.
  if (Number(request.headers['content-length'] ?? 0) > BODY_MAX) throw tooLarge()
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length
    if (size > BODY_MAX) throw tooLarge()
    parts.push(part)
  }
  if (size === 0) return undefined
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8')) as unknown
  } catch {
    throw badRequest('the body is not valid JSON')
  }
}

export function recordOf(request: IncomingMessage, url: URL): RequestRecord {
  const query: Record<string, string | string[]> = {}
  // The SDK sends arrays as `types[]=a&types[]=b` (internal/utils/query.ts).
  for (const key of new Set(url.searchParams.keys())) {
    const all = url.searchParams.getAll(key)
    query[key.replace(/\[\]$/, '')] = key.endsWith('[]') ? all : (all.at(-1) ?? '')
  }
  const headers = KEPT_HEADERS.flatMap((name): [string, string][] => {
    const value = request.headers[name]
    return typeof value === 'string' ? [[name, value]] : []
  })
  return {
    route: null,
    method: request.method ?? '',
    path: url.pathname,
    query,
    credential: 'none',
    itemId: null,
    status: null,
    headers: Object.fromEntries(headers),
  }
}
