/**
 * The media type of a file that a program wrote, decided by its first bytes and never by its name. The
 * program chose these bytes, so the type is only a hint. Every file is sent as a download that browsers do
 * not sniff, and no type here lets a browser run anything: what looks like HTML or SVG is text.
 */

/**
 * How many bytes decide. Fewer would save nothing for an encrypted file, which is read in chunks of 64 KiB.
 */
export const DECIDING_BYTES = 4096

const TEXT = 'text/plain; charset=utf-8'
const CSV = 'text/csv; charset=utf-8'
const OTHER = 'application/octet-stream'

/**
 * Signatures: PNG (ISO 15948 §5.2), JPEG (ITU-T T.81 B.1.1.3, a marker follows), GIF89a §17, WebP (RFC 9649
 * §2.4), AVIF (ISO 14496-12 §4.3: a `ftyp` box with an AVIF brand), PDF (ISO 32000 §7.5.2).
 */
const SIGNATURES: readonly (readonly [type: string, pattern: RegExp])[] = [
  // oxlint-disable-next-line no-control-regex
  ['image/png', /^\x89PNG\r\n\x1a\n/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8[79]a/],
  ['image/webp', /^RIFF[^]{4}WEBP/],
  ['image/avif', /^\0\0\0[^]ftyp(?:avif|avis)/],
  ['application/pdf', /^%PDF-\d/],
]

/** `head`: the first bytes of a file of `total` bytes, up to `DECIDING_BYTES` of them. */
export function mediaTypeOf(head: Uint8Array, total: number): string {
  const bytes = head.subarray(0, DECIDING_BYTES)
  const latin = Buffer.from(bytes).toString('latin1')
  const signed = SIGNATURES.find(([, pattern]) => pattern.test(latin))
  if (signed !== undefined) return signed[0]
  const isWhole = bytes.length >= total
  const text = textOf(bytes, isWhole)
  if (text === null || total === 0) return OTHER
  if (isJson(text, isWhole)) return 'application/json'
  return isCsv(text, isWhole) ? CSV : TEXT
}

/** The bytes as text. Null unless they are UTF-8 without control characters, except those of logs. */
function textOf(bytes: Uint8Array, isWhole: boolean): string | null {
  try {
    // A character may be cut at the end of a part.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: !isWhole })
    // Tab, line feed, form feed, carriage return, and ESC for colours.
    // oxlint-disable-next-line no-control-regex
    return /[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]/.test(text) ? null : text
  } catch {
    return null
  }
}

const JSON_TOKEN = /\s+|"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]/y
/** What a cut may leave at the end: a part of a string, or of a number or word. */
const CUT_TOKEN = /^(?:"(?:[^"\\]|\\.)*\\?|-?[\d.eE+-]*|[a-z]{0,4})$/

/**
 * Whether text is one JSON object or array. If the text is only the first part of a file, checks its tokens
 * and not its whole syntax.
 */
function isJson(text: string, isWhole: boolean): boolean {
  if (!/^\s*[{[]/.test(text)) return false
  if (!isWhole) return isStartOfJson(text)
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function isStartOfJson(text: string): boolean {
  let depth = 0
  for (let at = 0; at < text.length; at = JSON_TOKEN.lastIndex) {
    JSON_TOKEN.lastIndex = at
    const token = JSON_TOKEN.exec(text)?.[0]
    if (token === undefined) return depth > 0 && CUT_TOKEN.test(text.slice(at))
    if (token === '{' || token === '[') depth += 1
    if (token === '}' || token === ']') depth -= 1
    // Another value after the end of the first one: lines of JSON, or no JSON at all.
    if (depth <= 0 && JSON_TOKEN.lastIndex < text.trimEnd().length) return false
  }
  return true
}

/**
 * Whether there are at least two complete lines, all with the same number of commas outside quotes, at least
 * one.
 */
function isCsv(text: string, isWhole: boolean): boolean {
  const unquoted = text.replaceAll(/"(?:[^"]|"")*"/g, '""')
  const lines = unquoted.split(/\r?\n/)
  // The last line is empty, or not complete.
  if (!isWhole || lines.at(-1) === '') lines.pop()
  const commas = new Set(lines.map((line) => line.split(',').length - 1))
  return lines.length >= 2 && commas.size === 1 && !commas.has(0)
}
