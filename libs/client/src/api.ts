/** The calls that every resource is made of: JSON in, JSON or bytes out. */
import { ask, type Repeat } from './repeat.ts'
import type { Answer, HttpCall, HttpTarget, Query } from './http-call.ts'
import { listOf, type List } from './pages.ts'
import { bytesOf, jsonOf, textOf } from './read-answer.ts'

export interface CallOptions {
  /** Ends the call with the signal's reason. What the API has begun may continue. */
  signal?: AbortSignal
}

export interface Call extends CallOptions {
  method: HttpCall['method']
  path: string
  query?: Query | undefined
  body?: unknown
  headers?: Record<string, string>
  timeoutMs?: number
  /** Default `always`. */
  repeat?: Repeat
}

export interface Api {
  /** The JSON of an answer, which may be of a later release and have more fields. */
  json<T>(call: Call): Promise<T>
  /** The JSON of an answer with its status. Undefined for an empty one. */
  answer<T>(call: Call): Promise<{ status: number; body: T }>
  bytes(call: Call): Promise<{ status: number; bytes: Uint8Array }>
  /** A list whose pages have `next_cursor` and their items under `key`. */
  list<Key extends string, Item>(
    path: string,
    key: Key,
    query: Query | undefined,
    options?: CallOptions,
  ): List<Item, Record<Key, Item[]> & { next_cursor: string | null }>
}

export function createApi(target: HttpTarget): Api {
  async function answer<T>({ repeat, ...call }: Call): Promise<{ status: number; body: T }> {
    const read = async ({ status, chunks }: Answer) => ({ status, body: jsonOf(await textOf(chunks())) as T })
    return ask(target, call, read, repeat)
  }
  const json = async <T>(call: Call): Promise<T> => (await answer<T>(call)).body
  return {
    json,
    answer,
    bytes: ({ repeat, ...call }) =>
      ask(target, call, async ({ status, chunks }) => ({ status, bytes: await bytesOf(chunks()) }), repeat),
    list: (path, key, query, options = {}) =>
      listOf(
        (cursor) =>
          json({
            method: 'GET',
            path,
            query: cursor === undefined ? query : { ...query, cursor },
            ...options,
          }),
        (page) => page[key],
      ),
  }
}

/** A value as one part of a path. */
export const part = (value: string): string => encodeURIComponent(value)

/** A file's path as the rest of a path: its slashes stay. */
export const filePath = (path: string): string => path.split('/').map(encodeURIComponent).join('/')
