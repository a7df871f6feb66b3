/**
 * Messages of a Connect stream (connectrpc.com/docs/protocol, JSON codec): one flag byte, u32 big-endian
 * length, JSON. The last message has flag 2 and may hold an error. A stream without it was cut off.
 */
import { CofferdamError } from '@cofferdam/contract'

/** envd sends 32 KiB of output in base64. No message is sixteen times larger. */
const MESSAGE_MAX = 512 * 1024
const HEAD_BYTES = 5
const COMPRESSED = 1
const LAST = 2

export interface StreamMessage {
  isLast: boolean
  json: unknown
}

/** One message in its envelope, as the request of a server stream. */
export function encodeMessage(message: unknown): Buffer {
  const json = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32BE(json.length, 1)
  return Buffer.concat([head, json])
}

/**
 * Yields the messages of a stream, including the last. Throws `protocol_violation` for an invalid message and
 * `sandbox_lost` if the stream ends before the last one. Buffers one message at most.
 */
export async function* decodeMessages(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<StreamMessage> {
  let held = Buffer.alloc(0)
  for await (const chunk of chunks) {
    held = held.length === 0 ? Buffer.from(chunk) : Buffer.concat([held, chunk])
    let at = 0
    while (held.length - at >= HEAD_BYTES) {
      const flags = held.readUInt8(at)
      const length = held.readUInt32BE(at + 1)
      if ((flags & COMPRESSED) !== 0 || length > MESSAGE_MAX)
        throw new CofferdamError('protocol_violation', `E2B: a message of ${length} bytes, flags ${flags}.`)
      if (held.length - at - HEAD_BYTES < length) break
      const json = parse(held.subarray(at + HEAD_BYTES, at + HEAD_BYTES + length))
      at += HEAD_BYTES + length
      const isLast = (flags & LAST) !== 0
      yield { isLast, json }
      if (isLast) return
    }
    held = held.subarray(at)
  }
  throw new CofferdamError('sandbox_lost', 'E2B: the stream ended before its last message.')
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    throw new CofferdamError('protocol_violation', 'E2B: a message is not JSON.', { cause: error })
  }
}
