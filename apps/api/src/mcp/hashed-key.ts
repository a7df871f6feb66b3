/** Names that clients choose, made unambiguous and short enough for a key. */
import { createHash } from 'node:crypto'

/**
 * A hash over `parts`, 64 hex digits. Different lists of parts have different hashes: `a`, `bc` and `ab`, `c`
 * do not collide.
 */
export const hashedKey = (...parts: readonly (string | number)[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex')
