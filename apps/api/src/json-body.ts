/**
 * Bodies are JSON in UTF-8 with bounded nesting. Anything else, and keys that poison prototypes, are
 * refused with the position of the mistake.
 */
import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import { CofferdamError, type Problem } from '@cofferdam/contract'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { locateJsonError } from './locate-json-error.ts'
import type { BodyReader } from './receive-body.ts'

/**
 * More levels than any of our schemas has. `JSON.parse` blocks the event loop for 2.2 s (measured) on 28
 * MiB of brackets, so the depth is counted first.
 */
const MAX_DEPTH = 32

/** Larger invalid texts are refused without a position, because finding it would take too long. */
const MAX_LOCATED = 4 * 1024 * 1024

/** Installs our JSON parser. fastify answers other content types with 415. An empty body is `undefined`. */
export function acceptJsonBodies(app: FastifyInstance, readBody: BodyReader): void {
  // fastify's own parser refuses `__proto__` and `constructor.prototype` (secure-json-parse).
  const parseSecurely = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', async (request: FastifyRequest, payload: Readable) => {
    const bytes = await readBody(request, payload)
    if (bytes.length === 0) return undefined
    if (!isUtf8(bytes)) throw notJson('the body is not valid UTF-8')
    if (nestsDeeperThan(bytes, MAX_DEPTH))
      throw notJson(`the body is nested more than ${MAX_DEPTH} levels deep`)
    const text = bytes.toString('utf8').replace(/^\uFEFF/, '')
    return await new Promise<unknown>((resolve, reject) => {
      void parseSecurely(request as FastifyRequest<never, never>, text, (error, value) => {
        if (error === null) resolve(value)
        else reject(explain(text))
      })
    })
  })
}

/** Why `text` was refused: it is not JSON, or it has a forbidden key. */
function explain(text: string): CofferdamError {
  if (isJson(text)) {
    return notJson('the body has a key that poisons prototypes (__proto__ or constructor.prototype)')
  }
  const at = text.length > MAX_LOCATED ? null : locateJsonError(text)
  if (at === null) return notJson('the body is not JSON')
  return notJson(`the body is not JSON: expected ${at.expected} at line ${at.line}, column ${at.column}`, at)
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function notJson(message: string, details: object = {}): CofferdamError {
  const problems: Problem[] = [{ field: '(root)', message }]
  return new CofferdamError('invalid_request', message, { details: { problems, ...details } })
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** `[` and `{`, and also `]` and `}`, differ only in this bit. */
const CURLY = 0x20
const OPENER = 0x7b
const CLOSER = 0x7d

/** Whether brackets outside of strings nest deeper than `depth`. Skips strings with the fast `indexOf`. */
export function nestsDeeperThan(bytes: Buffer, depth: number): boolean {
  let level = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === QUOTE) {
      const end = endOfString(bytes, at)
      if (end === -1) return false
      at = end
    } else if ((byte | CURLY) === OPENER) {
      level += 1
      if (level > depth) return true
    } else if ((byte | CURLY) === CLOSER) level -= 1
  }
  return false
}

/** The position of the closing quote of the string that opens at `start`. -1 when there is none. */
function endOfString(bytes: Buffer, start: number): number {
  for (let at = bytes.indexOf(QUOTE, start + 1); at !== -1; at = bytes.indexOf(QUOTE, at + 1)) {
    let slashes = 0
    while (bytes[at - 1 - slashes] === BACKSLASH) slashes += 1
    if (slashes % 2 === 0) return at
  }
  return -1
}
