/** The few kinds of protobuf fields that sandboxd's messages have (protobuf.dev/programming-guides/encoding). */
import { CofferdamError } from '@cofferdam/contract'

const VARINT = 0
const I64 = 1
const LENGTH = 2
const I32 = 5

/** A field as it came: numbers (below 2^53) for varints, bytes for what has a length. */
export interface Field {
  number: number
  value: number | Buffer
}

/** A string, bytes or message under a field number. */
export function lengthField(number: number, content: Uint8Array | string): Buffer {
  const bytes = Buffer.from(content)
  return Buffer.concat([varint(number * 8 + LENGTH), varint(bytes.length), bytes])
}

/** A number, not negative, under a field number. */
export const varintField = (number: number, value: number): Buffer =>
  Buffer.concat([varint(number * 8 + VARINT), varint(value)])

/** The fields of a message, those of fixed width left out. Throws `protocol_violation` for what is no message. */
export function* fieldsOf(message: Buffer): Generator<Field> {
  let at = 0
  const next = (): number => {
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = message[at++]
      if (byte === undefined) break
      // Negative numbers are ten bytes; no field of ours means one, and what is above 2^53 only has to be read over.
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
