/**
 * Frames of `application/vnd.amazon.eventstream`: u32 total, u32 header bytes, CRC32 of both, headers,
 * payload, CRC32 of all. Written from the format's description and not with the SDK's codec. Otherwise a bug
 * of that codec would affect both sides and no test would see it.
 */
import { crc32 } from 'node:zlib'

/** Header type 7 of the format: a string with a u16 length. */
const STRING = 7

export function frame(headers: Record<string, string>, payload: Buffer | string = ''): Buffer {
  const body = Buffer.from(payload)
  const head = Buffer.concat(Object.entries(headers).map(([name, value]) => header(name, value)))
  const total = 16 + head.length + body.length
  const prelude = Buffer.alloc(12)
  prelude.writeUInt32BE(total, 0)
  prelude.writeUInt32BE(head.length, 4)
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8)
  const all = Buffer.concat([prelude, head, body])
  const end = Buffer.alloc(4)
  end.writeUInt32BE(crc32(all))
  return Buffer.concat([all, end])
}

function header(name: string, value: string): Buffer {
  const [key, text] = [Buffer.from(name), Buffer.from(value)]
  const length = Buffer.alloc(2)
  length.writeUInt16BE(text.length)
  return Buffer.concat([Buffer.from([key.length]), key, Buffer.from([STRING]), length, text])
}

/** A frame of message type `event`. The service has only the event type `result`. */
export const event = (payload: object, type = 'result'): Buffer =>
  frame(
    { ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' },
    JSON.stringify(payload),
  )

/**
 * A frame for which the SDK throws the exception class that `type` names. `type` starts with a lower-case
 * letter.
 */
export const exception = (type: string, message: string): Buffer =>
  frame(
    { ':exception-type': type, ':content-type': 'application/json', ':message-type': 'exception' },
    JSON.stringify({ message }),
  )

/** A frame for which the SDK throws an Error whose name is `code`. */
export const unmodelled = (code: string, message: string): Buffer =>
  frame({ ':error-code': code, ':error-message': message, ':message-type': 'error' })
