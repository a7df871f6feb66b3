/** Tells by the first bytes which protocol a client speaks through a tunnel. */

export type Protocol = 'tls' | 'http' | 'other'

/** A TLS record that holds a handshake (RFC 8446 §5.1). */
const TLS_HANDSHAKE = 22
/**
 * Servers skip empty lines before a request line (RFC 9112 §2.2) and accept any method and many separators.
 * But no server accepts an unencrypted HTTP/1 or HTTP/2 request whose first line does not name the protocol.
 */
const REQUEST_LINE = /^[\r\n]*[^\n]*HTTP\/\d/i
/** A line of text that has not ended yet. No HTTP server accepts one with a control character. */
// oxlint-disable-next-line no-control-regex
const UNENDED_LINE = /^[\r\n]*[^\n\x00-\x08\x0e-\x1f\x7f]*$/
/** Our parser refuses longer request lines, so they are passed to it as `http`. */
const MAX_LINE_BYTES = 16 * 1024

/** The protocol that starts with `bytes`. Null while more are needed: at most the first line, 16 KiB. */
export function protocolOf(bytes: Buffer): Protocol | null {
  if (bytes.length === 0) return null
  if (bytes[0] === TLS_HANDSHAKE) return 'tls'
  const text = bytes.toString('latin1', 0, MAX_LINE_BYTES)
  if (REQUEST_LINE.test(text)) return 'http'
  if (!UNENDED_LINE.test(text)) return 'other'
  return bytes.length < MAX_LINE_BYTES ? null : 'http'
}
