/** Bytes of a stream as text, cut within a limit between UTF-8 characters. Invalid bytes become U+FFFD. */

/**
 * Decodes at most `limit` bytes from the start (`head`) or the end (`tail`). `whole` is false when anything
 * was cut. `exact` is false when the text differs from the bytes.
 */
export function shownText(
  bytes: Uint8Array,
  limit: number,
  keep: 'head' | 'tail',
  cutBefore: boolean,
): { text: string; whole: boolean; exact: boolean } {
  // If the window cut the stream, its edge may be inside a character.
  const edged = cutBefore ? trimEdge(bytes, keep) : bytes
  const text = Buffer.from(edged.buffer, edged.byteOffset, edged.byteLength).toString()
  // U+FFFD has three bytes where the invalid byte had one, so the text may exceed the limit.
  const encoded = Buffer.from(text)
  if (encoded.length <= limit) return { text, whole: !cutBefore, exact: !cutBefore && encoded.equals(edged) }
  const from = keep === 'head' ? 0 : encoded.length - limit
  return { text: trimEdge(encoded.subarray(from, from + limit), keep).toString(), whole: false, exact: false }
}

/** Drops an incomplete character of at most three bytes at the edge where the bytes were cut. */
function trimEdge<T extends Uint8Array>(bytes: T, keep: 'head' | 'tail'): T {
  return (keep === 'head' ? trimEnd(bytes) : trimStart(bytes)) as T
}

function trimStart(bytes: Uint8Array): Uint8Array {
  let at = 0
  while (at < 3 && isContinuation(bytes[at])) at += 1
  return bytes.subarray(at)
}

function trimEnd(bytes: Uint8Array): Uint8Array {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]
    if (isContinuation(byte)) continue
    return sequenceLength(byte) > back ? bytes.subarray(0, bytes.length - back) : bytes
  }
  return bytes
}

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80

/**
 * How many bytes a character that begins with `byte` has. 1 for ASCII and for bytes that cannot begin a
 * character.
 */
function sequenceLength(byte: number | undefined): number {
  if (byte === undefined || byte < 0xc2) return 1
  if (byte < 0xe0) return 2
  if (byte < 0xf0) return 3
  return byte < 0xf5 ? 4 : 1
}
