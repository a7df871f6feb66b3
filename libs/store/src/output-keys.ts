/**
 * Encryption keys. The first key encrypts, all decrypt. To rotate, put a new key in front, and remove the old
 * one once everything that it encrypted has expired. Each blob has its own key, derived by HKDF-SHA-256 (RFC
 * 5869) from the configured key, the tenant and a random salt, so no nonce repeats under one key.
 */
import { hkdfSync } from 'node:crypto'
import { CofferdamError } from '@cofferdam/contract'

export interface OutputKey {
  /** 1–32 letters, digits, `_` or `-`. Stored in clear beside the encrypted data. */
  id: string
  /** 32 bytes. */
  key: Buffer
}

export interface OutputKeys {
  /** The key that encrypts, or null. */
  readonly current: OutputKey | null
  /** Throws `internal` for a key that is not configured. */
  find(id: string): OutputKey
}

/** Validates and indexes the keys. Throws `config_invalid` for an invalid key or a repeated id. */
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

export function derivedKey({ key }: OutputKey, tenant: string, salt: Uint8Array): Buffer {
  return Buffer.from(hkdfSync('sha256', key, salt, `cofferdam output v1\0${tenant}`, 32))
}
