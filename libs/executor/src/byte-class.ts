/** Sets of bytes as lookup tables: one read per byte in the redactor's inner loops. */

export type ByteClass = Readonly<Uint8Array>

/** The class of the given characters. `ranges` holds two-character pairs such as `az`. */
export function byteClass(ranges: readonly string[], singles = ''): ByteClass {
  const table = new Uint8Array(256)
  for (const range of ranges) table.fill(1, range.charCodeAt(0), range.charCodeAt(1) + 1)
  for (const char of singles) table[char.charCodeAt(0)] = 1
  return table
}

export function union(a: ByteClass | null, b: ByteClass | null): ByteClass | null {
  if (a === null || a === b) return b
  if (b === null) return a
  return a.map((member, index) => member | (b[index] ?? 0))
}

/** True when the class has the byte. False beyond the end of the input (undefined). */
export const has = (set: ByteClass, byte: number | undefined): boolean =>
  byte !== undefined && set[byte] === 1

export const UPPER_DIGIT = byteClass(['AZ', '09'])
export const ALNUM = byteClass(['AZ', 'az', '09'])
/** Characters of URL-safe base64, which vendor tokens usually have. */
export const TOKEN = byteClass(['AZ', 'az', '09'], '_-')
export const DIGIT = byteClass(['09'])
export const HEX = byteClass(['09', 'af', 'AF'])
