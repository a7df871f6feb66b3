/**
 * Reads the server name of a TLS ClientHello (RFC 8446 §4.1.2, RFC 6066 §3) from the first bytes of a
 * connection. Every length is checked against the available bytes. Anything that does not fit is `broken`,
 * never a guess.
 */

export type Hello =
  | { kind: 'incomplete' }
  | { kind: 'not_tls' }
  | { kind: 'broken' }
  /** `name` is null when the client sends none. */
  | { kind: 'hello'; name: string | null }

/** Hellos with post-quantum key shares have 2 KiB. One record can hold at most 16 KiB. */
export const MAX_HELLO_BYTES = 16 * 1024 + 5

const HANDSHAKE = 22
const CLIENT_HELLO = 1
const SERVER_NAME = 0

/** Reads length-prefixed fields one after another. Throws RangeError past the end, like Buffer's readers. */
function fields(bytes: Buffer): {
  take(count: number): Buffer
  vector(lengthBytes: number): Buffer
  left(): number
} {
  let at = 0
  const take = (count: number): Buffer => {
    if (at + count > bytes.length) throw new RangeError('past the end')
    at += count
    return bytes.subarray(at - count, at)
  }
  return {
    take,
    vector: (lengthBytes) => take(take(lengthBytes).readUIntBE(0, lengthBytes)),
    left: () => bytes.length - at,
  }
}

export function readHello(bytes: Buffer): Hello {
  if (bytes.length > 0 && bytes[0] !== HANDSHAKE) return { kind: 'not_tls' }
  const message = handshakeBytes(bytes)
  if (message === null) return { kind: 'broken' }
  if (message.length >= 1 && message[0] !== CLIENT_HELLO) return { kind: 'broken' }
  if (message.length < 4 || message.length < 4 + message.readUIntBE(1, 3)) return { kind: 'incomplete' }
  try {
    return { kind: 'hello', name: serverName(message.subarray(4, 4 + message.readUIntBE(1, 3))) }
  } catch {
    return { kind: 'broken' }
  }
}

/** The content of the handshake records so far (a hello may span several). Null for another record. */
function handshakeBytes(bytes: Buffer): Buffer | null {
  const parts: Buffer[] = []
  for (let at = 0; at + 5 <= bytes.length;) {
    if (bytes[at] !== HANDSHAKE) return null
    const end = at + 5 + bytes.readUInt16BE(at + 3)
    parts.push(bytes.subarray(at + 5, end))
    at = end
  }
  return Buffer.concat(parts)
}

function serverName(hello: Buffer): string | null {
  const body = fields(hello)
  body.take(2 + 32) // version, random
  body.vector(1) // session id
  body.vector(2) // cipher suites
  body.vector(1) // compression methods
  if (body.left() === 0) return null
  const names: string[] = []
  const extensions = fields(body.vector(2))
  while (extensions.left() > 0) {
    const type = extensions.take(2).readUInt16BE()
    const content = extensions.vector(2)
    if (type !== SERVER_NAME) continue
    const list = fields(fields(content).vector(2))
    while (list.left() > 0) {
      if (list.take(1)[0] !== 0) throw new RangeError('a name of unknown type')
      names.push(list.vector(2).toString('latin1'))
    }
  }
  // With two names, two readers could see different ones.
  if (names.length > 1) throw new RangeError('more than one name')
  return names[0] ?? null
}
