/**
 * What shows that a batch has not begun, whatever a program in the session did: a secret whose hash is the permit. To begin destroys it
 * (in-session.py), so who can still tell it has not begun. It holds for permits that were made before a program ran there.
 */
import { createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'

/** A permit or a secret: 32 bytes in hex. */
export const permitSchema = z.string().regex(/^[0-9a-f]{64}$/)

/** One that is not made in the session: known to whoever saw it being brought there, and so for no program. */
export function newPermit(): { permit: string; secret: string } {
  const secret = randomBytes(32).toString('hex')
  return { permit: hashOf(secret), secret }
}

/** True where `proof` is the secret of `permit`. */
export const isUnspent = (permit: string, proof: string | null): boolean =>
  proof !== null && hashOf(proof) === permit

const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex')
