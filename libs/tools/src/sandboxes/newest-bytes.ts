/** The newest part of a text, by its size in UTF-8. */

/** Keeps at most `most` bytes from the end, without half a character. `dropped`: bytes that are missing. */
export function newestBytes(text: string, most: number): { text: string; dropped: number } {
  if (most === Number.POSITIVE_INFINITY) return { text, dropped: 0 }
  const bytes = new TextEncoder().encode(text)
  let start = Math.max(0, bytes.length - most)
  // A byte of the form 10xxxxxx continues a character.
  while (start < bytes.length && ((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1
  return { text: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes.subarray(start)), dropped: start }
}
