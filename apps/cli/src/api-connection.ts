/** Calls the API where the client library has no method: JSON in, JSON out, failures as `CofferdamError`. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { type Client, createClient } from '@cofferdam/client'
import { CofferdamError, errorBodySchema, isErrorCode, parse } from '@cofferdam/contract'
import type { z } from 'zod'
import { CommandFailure, type CommandLine, type Context, systemCode } from './command.ts'
import { DEFAULT_URL } from './config.ts'
import { textFlag } from './parse-command-line.ts'
import { UsageError } from './usage-error.ts'

/** The file with the admin key that `up` writes into its data directory. */
export const adminKeyFile = (dataDir: string): string => path.join(dataDir, 'admin.key')

/** The file with the address of the API, which `up` keeps in its data directory while it runs. */
export const apiUrlFile = (dataDir: string): string => path.join(dataDir, 'api.url')

/** Timeout of a call. Each call is a lookup or a small write. */
const CALL_MS = 30_000

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export interface ApiConnection {
  url: string
  key: string
  /** Sends JSON, or bytes unchanged, and returns the parsed answer. Undefined for an empty answer. */
  call(method: Method, path: string, body?: unknown): Promise<unknown>
  /** Like `call`, and checks the answer against `schema`. */
  ask<T>(schema: z.ZodType<T>, method: Method, path: string, body?: unknown): Promise<T>
  /** Every page of a list, one by one. `path` is without a query. */
  pages<T extends { next_cursor: string | null }>(
    schema: z.ZodType<T>,
    path: string,
    query?: Record<string, string>,
  ): AsyncGenerator<T>
  /** The body of a GET in pieces, however long it takes. Throws when it breaks off. */
  stream(path: string): AsyncIterable<Uint8Array>
  /** The body of a GET as bytes. Throws `wait_timeout` when the answer is not ready yet (202). */
  bytes(path: string): Promise<Uint8Array>
}

/** The address and the key to use. Throws `UsageError` when there is no key. */
function connectionOf(context: Context, line: CommandLine): { url: string; key: string } {
  const { url: named, dataDir } = context.config
  const url = (textFlag(line, 'url') ?? named ?? urlOfUp(dataDir) ?? DEFAULT_URL).replace(/\/+$/, '')
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new UsageError(
      `--url expects an address such as http://127.0.0.1:7070, got ${JSON.stringify(url)}.`,
    )
  return { url, key: context.config.apiKey ?? readAdminKey(context.config.dataDir) }
}

/** The address of the `up` that runs in `dataDir`. Null when none does. */
function urlOfUp(dataDir: string): string | null {
  try {
    return readFileSync(apiUrlFile(dataDir), 'utf8').trim()
  } catch {
    return null
  }
}

function readAdminKey(dataDir: string): string {
  const file = adminKeyFile(dataDir)
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    const code = systemCode(error)
    throw new UsageError(
      code === 'ENOENT'
        ? `No API key: set COFFERDAM_API_KEY, or start a local fleet with \`cofferdam up\` (it writes ${file}).`
        : `The key file ${file} cannot be read (${code}). Set COFFERDAM_API_KEY, or run as the user who started \`up\`.`,
    )
  }
}

/** Opens the connection that a command line asks for. */
export function openApi(context: Context, line: CommandLine): ApiConnection {
  const { url, key } = connectionOf(context, line)
  return apiOver(url, key, context.stop)
}

/** Talks to one API with one key until `stop` aborts. */
export function apiOver(url: string, key: string, stop: AbortSignal): ApiConnection {
  const answer = async (
    method: string,
    route: string,
    body?: unknown,
  ): Promise<{ status: number; bytes: Buffer }> => {
    const isRaw = body instanceof Uint8Array
    const response = await send(url, route, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined
          ? {}
          : { 'content-type': isRaw ? 'application/octet-stream' : 'application/json' }),
      },
      ...(body === undefined ? {} : { body: isRaw ? Buffer.from(body) : JSON.stringify(body) }),
      signal: AbortSignal.any([stop, AbortSignal.timeout(CALL_MS)]),
    })
    const bytes = Buffer.from(await response.arrayBuffer())
    if (!response.ok) throw errorOf(response.status, bytes.toString())
    return { status: response.status, bytes }
  }
  async function* stream(route: string): AsyncGenerator<Uint8Array> {
    const response = await send(url, route, { headers: { authorization: `Bearer ${key}` }, signal: stop })
    if (!response.ok) throw errorOf(response.status, await response.text())
    if (response.body !== null) yield* response.body
  }
  const call: ApiConnection['call'] = async (method, route, body) => {
    const text = (await answer(method, route, body)).bytes.toString()
    return text === '' ? undefined : (JSON.parse(text) as unknown)
  }
  const ask: ApiConnection['ask'] = async (schema, method, route, body) =>
    parse(schema, await call(method, route, body), 'the answer')
  return {
    url,
    key,
    stream,
    call,
    ask,
    async *pages(schema, route, query = {}) {
      for (let cursor: string | null = ''; cursor !== null;) {
        const search = new URLSearchParams({ ...query, ...(cursor === '' ? {} : { cursor }) })
        const page = await ask(schema, 'GET', `${route}?${search.toString()}`)
        yield page
        cursor = page.next_cursor
      }
    },
    bytes: async (route) => {
      const { status, bytes } = await answer('GET', route)
      if (status === 202) throw new CofferdamError('wait_timeout')
      return bytes
    },
  }
}

async function send(url: string, route: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(`${url}${route}`, init)
  } catch (cause) {
    throw unreachable(url, cause)
  }
}

/** Explains a failed connection to the user. */
function unreachable(url: string, cause: unknown): unknown {
  const isLate = cause instanceof Error && cause.name === 'TimeoutError'
  if (!(cause instanceof TypeError) && !isLate) return cause
  const inner = cause.cause
  const why = isLate ? `no answer within ${CALL_MS / 1000} s` : systemCode(inner) || cause.message
  return new CommandFailure(
    `No API answers at ${url} (${why}). Start one with \`cofferdam up\`, or name another with --url or ` +
      `COFFERDAM_URL.`,
    { cause, code: 'unreachable' },
  )
}

function errorOf(status: number, text: string): Error {
  const body = errorBodySchema.safeParse(jsonOf(text))
  // The answer of a proxy whose API is down.
  if (!body.success && status >= 502 && status <= 504)
    return new CommandFailure(`The API is down: its proxy answered ${status}. Try again later.`, {
      code: 'unreachable',
    })
  if (!body.success)
    return new CofferdamError('internal', `The API answered ${status}: ${text.slice(0, 200)}`)
  const { code, message, details } = body.data.error
  const known = isErrorCode(code) ? code : 'internal'
  return new CofferdamError(known, message, details === undefined ? {} : { details })
}

/** Parses `text` as JSON. Null when it is not JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/**
 * Opens the client library. The caller disposes it. First checks whether the API answers: the library would
 * retry for seconds, but a person wants to know at once. Throws `UsageError`, `CommandFailure`.
 */
export async function openClient(context: Context, line: CommandLine): Promise<Client> {
  const api = openApi(context, line)
  await api.call('GET', '/healthz')
  return createClient({ baseUrl: api.url, apiKey: api.key })
}

export const tenantPath = (tenant: string): string => `/v1/tenants/${encodeURIComponent(tenant)}`

/** A file's path as a part of a URL. */
export const encodePath = (file: string): string => file.split('/').map(encodeURIComponent).join('/')
