/**
 * Proves that a batch has not started, whatever a program in the session did. A permit is the hash of a
 * secret. Starting destroys the secret (in-session.py), so whoever still knows it has not started. This holds
 * for permits from before the program ran.
 */
import { createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'

/** The pattern of a permit or a secret: 32 bytes in hex. */
export const permitSchema = z.string().regex(/^[0-9a-f]{64}$/)

/** Creates a permit outside of the session. Only those who saw it uploaded know it, so no program does. */
export function newPermit(): { permit: string; secret: string } {
  const secret = randomBytes(32).toString('hex')
  return { permit: hashOf(secret), secret }
}

/** Returns true if `proof` is the secret of `permit`. */
export const isUnspent = (permit: string, proof: string | null): boolean =>
  proof !== null && hashOf(proof) === permit

const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex')
