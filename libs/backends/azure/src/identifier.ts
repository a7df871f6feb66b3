/**
 * Identifiers of sessions at the service. An identifier opens its session to whoever may use the pool. It is
 * an HMAC with a secret that only workers have, over values that are not secret. It appears in no log.
 *
 *   j1<owner><mac>   for one execution: contains the owner, so that others find what a dead worker left
 *   s1<mac><mac>     for a session, which belongs to no worker
 */
import { createHash, createHmac } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { CofferdamError, type SandboxRef, type WorkerId } from '@cofferdam/contract'

/** Base-36 digits of 176 and 128 bits. 2 + 35 + 25 is below 64 characters, all of them allowed. */
const OWNER_DIGITS = 35
const MAC_DIGITS = 25
const SECRET_MIN = 32

export interface Identifiers {
  /** The identifier of one execution's sandbox. */
  ofJob(owner: WorkerId, seed: string): Promise<string>
  ofSession(seed: string): Promise<string>
}

/** The input of a session's identifier besides the secret. It is not secret and shows no caller's key. */
export const sessionSeed = (tenantId: string, key: string, epoch: number): string =>
  createHash('sha256')
    .update(JSON.stringify([tenantId, key, epoch]))
    .digest('hex')

/** Creates the identifiers. Reads the secret each time, so that it can be rotated. */
export function createIdentifiers(secretFile: string | undefined): Identifiers {
  async function mac(text: string): Promise<string> {
    const digest = createHmac('sha256', await secretIn(secretFile))
      .update(text)
      .digest()
    return base36(digest.subarray(0, 16), MAC_DIGITS)
  }
  return {
    async ofJob(owner, seed) {
      const [, fleet, id] = /^wrk_([0-9a-f]{12})_([0-9a-f]{32})$/.exec(owner) ?? []
      if (fleet === undefined || id === undefined)
        throw new CofferdamError('invalid_request', 'Azure: the owner is no worker’s id.')
      return `j1${base36(Buffer.from(fleet + id, 'hex'), OWNER_DIGITS)}${await mac(`job|${owner}|${seed}`)}`
    },
    ofSession: async (seed) => `s1${await mac(`session|${seed}`)}${await mac(`session-2|${seed}`)}`,
  }
}

/** Returns the identifier in the handle of a ref or a registry entry. */
export async function identifierOf(
  identifiers: Identifiers,
  handle: SandboxRef['handle'],
): Promise<string | null> {
  const { owner, seed } = handle
  if (typeof seed !== 'string' || !/^(sbx_[0-9a-f]{32}|[0-9a-f]{64})$/.test(seed)) return null
  if (owner === undefined) return await identifiers.ofSession(seed)
  return await identifiers.ofJob(owner as WorkerId, seed)
}

/** Returns the owner in an execution's identifier, or null for any other. */
export function ownerOf(identifier: string): WorkerId | null {
  const digits = /^j1([0-9a-z]{35})[0-9a-z]{25}$/.exec(identifier)?.[1]
  if (digits === undefined) return null
  const hex = digits
    .split('')
    .reduce((sum, digit) => sum * 36n + BigInt(Number.parseInt(digit, 36)), 0n)
    .toString(16)
    .padStart(44, '0')
  return hex.length === 44 ? `wrk_${hex.slice(0, 12)}_${hex.slice(12)}` : null
}

/** Returns a short hash of the identifier, which logs may show. */
export const hashOf = (identifier: string): string =>
  createHash('sha256').update(identifier).digest('hex').slice(0, 16)

const base36 = (bytes: Uint8Array, digits: number): string =>
  BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
    .toString(36)
    .padStart(digits, '0')

async function secretIn(file: string | undefined): Promise<Buffer> {
  if (file === undefined)
    throw new CofferdamError('backend_unavailable', 'Azure: identifier_secret_file is not set.')
  const secret = await readFile(file).catch((error: unknown) => {
    throw new CofferdamError('backend_unavailable', `Azure: ${file} cannot be read.`, { cause: error })
  })
  if (secret.length < SECRET_MIN)
    throw new CofferdamError('backend_unavailable', `Azure: ${file} holds less than ${SECRET_MIN} bytes.`)
  return secret
}
