/** Talks to the API where no library method exists: JSON in, JSON out, failures as `CofferdamError`. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { CofferdamError, errorBodySchema, isErrorCode } from '@cofferdam/contract'
import { CommandFailure } from './command-failure.ts'
import type { CommandLine, Context } from './command.ts'
import { DEFAULT_URL } from './config.ts'
import { textFlag } from './parse-command-line.ts'
import { UsageError } from './usage-error.ts'

/** The admin key that `up` leaves in its data directory. */
export const adminKeyFile = (dataDir: string): string => path.join(dataDir, 'admin.key')

/** Where `up` listens, while it runs, in its data directory. */
export const apiUrlFile = (dataDir: string): string => path.join(dataDir, 'api.url')

/** An answer is complete within this, or the API is not well: every call here is a look-up or a small write. */
const CALL_MS = 30_000

export interface ApiConnection {
  url: string
  key: string
  /** Sends a request (JSON, or bytes as they are) and returns the parsed answer, undefined for an empty one. */
  call(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<unknown>
  /** The body of a GET piece by piece, however long it takes; throws when it breaks off. */
  stream(path: string): AsyncIterable<Uint8Array>
  /** The body of a GET as it is. Throws `wait_timeout` when there is only a promise of it (202). */
  bytes(path: string): Promise<Uint8Array>
}

/** Where to talk to and with which key. Throws `UsageError` when no key is to be had. */
function connectionOf(context: Context, line: CommandLine): { url: string; key: string } {
  const { url: named, dataDir } = context.config
  const url = (textFlag(line, 'url') ?? named ?? urlOfUp(dataDir) ?? DEFAULT_URL).replace(/\/+$/, '')
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new UsageError(
      `--url expects an address such as http://127.0.0.1:7070, got ${JSON.stringify(url)}.`,
    )
  return { url, key: context.config.apiKey ?? readAdminKey(context.config.dataDir) }
}

/** Null when no `up` runs in `dataDir`, or one of before, which left no address. */
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
    const code = error instanceof Error && 'code' in error ? error.code : ''
    throw new UsageError(
      code === 'ENOENT'
        ? `No API key: set COFFERDAM_API_KEY, or start a local fleet with \`cofferdam up\` (it writes ${file}).`
        : `The key file ${file} cannot be read (${String(code)}); set COFFERDAM_API_KEY, or run as the user who started \`up\`.`,
    )
  }
}

/** Opens the connection a command line asks for. */
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
  return {
    url,
    key,
    stream,
    call: async (method, route, body) => {
      const text = (await answer(method, route, body)).bytes.toString()
      return text === '' ? undefined : (JSON.parse(text) as unknown)
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

/** What a failed connection means to the user. */
export function unreachable(url: string, cause: unknown): unknown {
  const isLate = cause instanceof Error && cause.name === 'TimeoutError'
  if (!(cause instanceof TypeError) && !isLate) return cause
  const inner = cause.cause
  const why = isLate
    ? `nothing within ${CALL_MS / 1000} s`
    : inner instanceof Error && 'code' in inner
      ? String(inner.code)
      : cause.message
  return new CommandFailure(
    `No API answers at ${url} (${why}). Start one with \`cofferdam up\`, or name another with --url or COFFERDAM_URL.`,
    { cause, code: 'unreachable' },
  )
}

function errorOf(status: number, text: string): Error {
  const body = errorBodySchema.safeParse(jsonOf(text))
  // What a proxy says for an API that is away.
  if (!body.success && status >= 502 && status <= 504)
    return new CommandFailure(`The API is away: its proxy answered ${status}.`, { code: 'unreachable' })
  if (!body.success)
    return new CofferdamError('internal', `The API answered ${status}: ${text.slice(0, 200)}`)
  const { code, message, details } = body.data.error
  const known = isErrorCode(code) ? code : 'internal'
  return new CofferdamError(known, message, details === undefined ? {} : { details })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
