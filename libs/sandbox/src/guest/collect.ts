/** Requests for files in the sandbox (C). Answers: F frames within the agreed bytes, then Z with a status. */
import { CofferdamError, type Listing } from '@cofferdam/contract'
import { createGrowingBytes } from './growing-bytes.ts'
import { encodeFrame, violation } from './protocol.ts'

/** Status byte of Z; the agent's workdir.py has the same numbers. */
const STATUS = [
  'ok',
  'not_found',
  'too_large',
  'refused',
  'no_space',
  'io_error',
  'no_loopback',
  'partial',
] as const

/** Bytes of an entry in the answer to a listing: its head and the longest path that the agent sends. */
const ENTRY_MAX = 10 + 4096

/** A successful Z. `isPartial`: the search ended early; `said`: the bytes after the status. */
export interface Done {
  isPartial: boolean
  said: Buffer
}
/** A parsed Z: success, or the error that its status means. */
export type Answer = CofferdamError | Done

export interface Collector {
  /** Takes an F frame; throws `protocol_violation` beyond the agreed bytes. */
  take(payload: Buffer): void
  /** Takes Z. Throws `protocol_violation` for a wrong answer. */
  finish(answer: Answer): void
  abandon(reason: CofferdamError): void
}
export interface Collection<T> extends Collector {
  readonly result: Promise<T>
}

/** Collects at most `maxBytes` of F frames and parses them, with Z, into the answer. */
export function createCollector<T>(maxBytes: number, parse: (bytes: Buffer, done: Done) => T): Collection<T> {
  const answered = Promise.withResolvers<T>()
  answered.promise.catch(() => {})
  const received = createGrowingBytes()
  return {
    result: answered.promise,
    take(payload) {
      if (payload.length === 0 || received.size + payload.length > maxBytes)
        throw violation('frame F beyond the agreed bytes')
      received.push(payload)
    },
    finish(answer) {
      if (answer instanceof CofferdamError) answered.reject(answer)
      else answered.resolve(parse(received.bytes(), answer))
    },
    abandon: (reason) => answered.reject(reason),
  }
}

function request(operation: 'r' | 'l' | 'k' | 'd', limit: number, names: readonly string[]): Buffer {
  const head = Buffer.alloc(5)
  head.write(operation, 'latin1')
  head.writeUInt32LE(Math.min(limit, 0xffffffff), 1)
  return encodeFrame('C', Buffer.concat([head, Buffer.from(names.join('\0'))]))
}

export const collectRequest = {
  read: (path: string, maxBytes: number): { collector: Collection<Uint8Array>; frame: Buffer } => ({
    collector: createCollector<Uint8Array>(maxBytes, (bytes) => bytes),
    frame: request('r', maxBytes, [path]),
  }),
  list: (
    globs: readonly string[],
    maxEntries: number,
    kind: 'files' | 'links' = 'files',
  ): { collector: Collection<Listing>; frame: Buffer } => ({
    collector: createCollector(maxEntries * ENTRY_MAX, (bytes, { isPartial }) =>
      Object.assign(parseEntries(bytes, maxEntries), isPartial ? { partial: true } : {}),
    ),
    frame: request(kind === 'links' ? 'k' : 'l', maxEntries, globs),
  }),
  remove: (path: string): { collector: Collection<void>; frame: Buffer } => ({
    collector: createCollector(0, () => undefined),
    frame: request('d', 0, [path]),
  }),
}

function parseEntries(bytes: Buffer, maxEntries: number): Listing {
  const entries: Listing = []
  for (let at = 0; at < bytes.length;) {
    if (bytes.length - at < 10) throw violation('a listing is cut')
    const size = Number(bytes.readBigUInt64LE(at))
    const length = bytes.readUInt16LE(at + 8)
    if (bytes.length - at - 10 < length || entries.length === maxEntries)
      throw violation('a listing is wrong')
    entries.push({ path: bytes.toString('utf8', at + 10, at + 10 + length), size })
    at += 10 + length
  }
  return entries
}

/** What `clean` keeps: nothing, the work directory, also the interpreter of a session, or everything. */
export type Kept = 'none' | 'files' | 'interpreter' | 'processes'

const KEPT_BYTE: Record<Kept, string> = { none: 'n', files: 'f', interpreter: 'i', processes: 'p' }

/** An agent's processes that wait for the next program: an interpreter and its fork server. */
const WAITING_MAX = 2

/** K. Once nothing else is left, Z answers with the number of waiting processes (u8). */
export const cleanRequest = (keep: Kept): { collector: Collection<number>; frame: Buffer } => ({
  collector: createCollector(0, (_none, { said }) => {
    const waiting = said[0] ?? 0
    if (waiting > WAITING_MAX) throw violation(`${waiting} processes that wait`)
    return waiting
  }),
  frame: encodeFrame('K', Buffer.from(KEPT_BYTE[keep])),
})

/** Reads Z. Throws `protocol_violation` for an unknown status. */
export function parseAnswer(payload: Buffer): Answer {
  const status = STATUS[payload[0] ?? 255]
  const text = payload.toString('utf8', 1, 1 + 512)
  switch (status) {
    case 'ok':
    case 'partial':
      return { isPartial: status === 'partial', said: payload.subarray(1) }
    case 'not_found':
      return new CofferdamError('not_found', `there is no file ${text}`)
    case 'too_large':
    case 'no_space':
      return new CofferdamError('payload_too_large', text, { details: { status } })
    case 'refused':
      return new CofferdamError('invalid_request', text)
    case 'no_loopback':
      return new CofferdamError(
        'sandbox_open_failed',
        'The sandbox has no loopback interface for its proxy.',
        {
          details: { said: text },
        },
      )
    case 'io_error':
      return new CofferdamError('sandbox_lost', undefined, { details: { said: text } })
    default:
      throw violation('frame Z has an unknown status')
  }
}
