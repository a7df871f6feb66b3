/** The protobuf field types of sandboxd (protobuf.dev/programming-guides/encoding). */
import { CofferdamError } from '@cofferdam/contract'

const VARINT = 0
const I64 = 1
const LENGTH = 2
const I32 = 5

/** A decoded field: a number below 2^53 for a varint, bytes for a field with a length. */
export interface Field {
  number: number
  value: number | Buffer
}

/** Encodes a string, bytes or a message. */
export function lengthField(number: number, content: Uint8Array | string): Buffer {
  const bytes = Buffer.from(content)
  return Buffer.concat([varint(number * 8 + LENGTH), varint(bytes.length), bytes])
}

/** Encodes a number that is not negative. */
export const varintField = (number: number, value: number): Buffer =>
  Buffer.concat([varint(number * 8 + VARINT), varint(value)])

/** Decodes a message and skips fields of fixed width. Throws `protocol_violation` for invalid bytes. */
export function* fieldsOf(message: Buffer): Generator<Field> {
  let at = 0
  const next = (): number => {
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = message[at++]
      if (byte === undefined) break
      // Negative numbers take ten bytes. We read no such field, so a value above 2^53 may be inexact.
      value += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) return value
    }
    throw violation()
  }
  const take = (length: number): Buffer => {
    if (length > message.length - at) throw violation()
    at += length
    return message.subarray(at - length, at)
  }
  while (at < message.length) {
    const tag = next()
    const number = Math.floor(tag / 8)
    if (tag % 8 === VARINT) yield { number, value: next() }
    else if (tag % 8 === LENGTH) yield { number, value: take(next()) }
    else if (tag % 8 === I64) take(8)
    else if (tag % 8 === I32) take(4)
    else throw violation()
  }
}

function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 0x80; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 0x80)
  return Buffer.from([...bytes, rest])
}

const violation = (): CofferdamError =>
  new CofferdamError('protocol_violation', 'kubernetes: a message of sandboxd cannot be read.')
