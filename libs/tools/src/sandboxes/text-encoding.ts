/** Texts as bytes, and lines of texts. */

/** Decodes bytes. A byte order mark stays. Throws RangeError for an unknown encoding. */
export const decodeText = (bytes: Uint8Array, encoding = 'utf-8'): string =>
  new TextDecoder(encoding, { ignoreBOM: true }).decode(bytes)

/** Encodes text as UTF-8 or UTF-16LE, which are what platforms write. Throws RangeError for others. */
export function encodeText(text: string, encoding = 'utf-8'): Uint8Array {
  const name = encoding.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
  if (name === 'utf8') return new TextEncoder().encode(text)
  if (name !== 'utf16le' && name !== 'ucs2')
    throw new RangeError(`Text cannot be written as ${encoding}. Use utf-8 or utf-16le, or write bytes.`)
  const bytes = new Uint8Array(text.length * 2)
  for (let at = 0; at < text.length; at += 1) {
    bytes[at * 2] = text.charCodeAt(at) & 0xff
    bytes[at * 2 + 1] = text.charCodeAt(at) >> 8
  }
  return bytes
}

/** Lines `first` to `last`, from 1 and inclusive, as the AI SDK's own `extractLines` cuts them. */
export function linesOf(text: string, first?: number, last?: number): string {
  if (first === undefined && last === undefined) return text
  const ending = ['\r\n', '\n', '\r'].find((one) => text.includes(one)) ?? '\n'
  return text
    .split(ending)
    .slice(Math.max(1, first ?? 1) - 1, last === undefined ? undefined : Math.max(0, last))
    .join(ending)
}
