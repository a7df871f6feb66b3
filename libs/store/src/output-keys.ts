/**
 * Keys for what is stored encrypted. The first one encrypts, all of them decrypt: a new key is put in front, and the old
 * one removed when what it encrypted is gone with its retention. Each blob has a key of its own, made by HKDF-SHA-256
 * (RFC 5869) from the configured key, the tenant and a random salt, so no nonce can meet twice under one key.
 */
import { hkdfSync } from 'node:crypto'
import { CofferdamError } from '@cofferdam/contract'

export interface OutputKey {
  /** 1–32 letters, digits, `_` or `-`; stands in clear beside what it encrypted. */
  id: string
  /** 32 bytes. */
  key: Buffer
}

export interface OutputKeys {
  /** The key that encrypts; null when none is configured. */
  readonly current: OutputKey | null
  /** Throws `internal` when it is not configured. */
  find(id: string): OutputKey
}

/** Checks and indexes the keys; throws `config_invalid` for one that is none, or an id that repeats. */
export function createOutputKeys(keys: readonly OutputKey[]): OutputKeys {
  const byId = new Map(keys.map((key) => [key.id, key]))
  const isKey = ({ id, key }: OutputKey): boolean => /^[A-Za-z0-9_-]{1,32}$/.test(id) && key.length === 32
  if (byId.size !== keys.length || !keys.every(isKey))
    throw new CofferdamError('config_invalid', 'Output keys need ids of their own and 32 bytes each.')
  return {
    current: keys[0] ?? null,
    find(id) {
      const key = byId.get(id)
      if (key === undefined)
        throw new CofferdamError(
          'internal',
          `What is stored was encrypted with key ${id}, which is not configured.`,
        )
      return key
    },
  }
}

/** The key of one blob. */
export function derivedKey({ key }: OutputKey, tenant: string, salt: Uint8Array): Buffer {
  return Buffer.from(hkdfSync('sha256', key, salt, `cofferdam output v1\0${tenant}`, 32))
}
