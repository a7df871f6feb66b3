/**
 * Proves that a batch has not started, whatever a program in the session did. A permit is the hash of a
 * secret. Starting the batch destroys the secret (in-session.py), so a session that still shows it has not
 * started the batch. This holds only for permits that were created before a program ran.
 */
import { createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'

/** The pattern of a permit or a secret: 32 bytes in hex. */
export const permitSchema = z.string().regex(/^[0-9a-f]{64}$/)

/**
 * Creates a permit on the worker. Its secret is uploaded before a program runs in the session, so none knows
 * it.
 */
export function newPermit(): { permit: string; secret: string } {
  const secret = randomBytes(32).toString('hex')
  return { permit: hashOf(secret), secret }
}

/** Returns true if `proof` is the secret of `permit`. */
export const isUnspent = (permit: string, proof: string | null): boolean =>
  proof !== null && hashOf(proof) === permit

const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex')
