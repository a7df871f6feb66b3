/**
 * Encrypted bytes that can be read in parts:
 *
 *   header   "CFDS" · version 1 · length of the key ID · key ID, padded to 32 · salt (16)
 *   chunk i  AES-256-GCM of 64 KiB of text · tag (16)
 *
 * Every chunk except the last is full, and an empty text has one empty chunk. The nonce contains the chunk's
 * number and whether it is the last (the STREAM construction, Hoang et al. 2015). Header and location are
 * authenticated with each chunk. So a chunk that was altered, dropped, repeated, moved, or cut off at the end
 * does not decrypt.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { CofferdamError } from '@cofferdam/contract'
import { derivedKey, type OutputKey, type OutputKeys } from './output-keys.ts'

/** Bytes of text per chunk: little overhead per MiB, and little to decrypt for a single byte. */
export const CHUNK_BYTES = 65_536
const TAG_BYTES = 16
const SALT_BYTES = 16
const ID_BYTES = 32
const MAGIC = Buffer.from('CFDS\x01')
export const HEADER_BYTES = MAGIC.length + 1 + ID_BYTES + SALT_BYTES
export const STORED_CHUNK_BYTES = CHUNK_BYTES + TAG_BYTES

/** Owner and location of the bytes. A reader must name the same ones as the writer. */
export interface SealedLocation {
  tenant: string
  location: string
}

export interface Sealer {
  readonly header: Buffer
  /** Chunks must come in order. Only the last may be short. */
  seal(chunk: Uint8Array, isLast: boolean): Buffer
}

export interface Opener {
  /** Decrypts one stored chunk. Throws `stored_data_damaged` when it was altered or moved. */
  open(stored: Uint8Array, index: number, isLast: boolean): Buffer
}

export function createSealer(key: OutputKey, where: SealedLocation): Sealer {
  const id = Buffer.from(key.id)
  const salt = randomBytes(SALT_BYTES)
  const padding = Buffer.alloc(ID_BYTES - id.length)
  const header = Buffer.concat([MAGIC, Buffer.from([id.length]), id, padding, salt])
  const own = derivedKey(key, where.tenant, salt)
  const authenticated = associated(header, where)
  let index = 0
  return {
    header,
    seal(chunk, isLast) {
      const cipher = createCipheriv('aes-256-gcm', own, nonceOf(index, isLast)).setAAD(authenticated)
      index += 1
      return Buffer.concat([cipher.update(chunk), cipher.final(), cipher.getAuthTag()])
    },
  }
}

/** Throws `stored_data_damaged` for an invalid header, `internal` if its key is not configured. */
export function createOpener(keys: OutputKeys, header: Uint8Array, where: SealedLocation): Opener {
  const bytes = Buffer.from(header)
  const idLength = bytes[MAGIC.length] ?? 0
  if (bytes.length !== HEADER_BYTES || !bytes.subarray(0, MAGIC.length).equals(MAGIC) || idLength > ID_BYTES)
    throw damaged()
  const idStart = MAGIC.length + 1
  const key = keys.find(bytes.toString('latin1', idStart, idStart + idLength))
  const own = derivedKey(key, where.tenant, bytes.subarray(HEADER_BYTES - SALT_BYTES))
  const authenticated = associated(bytes, where)
  return {
    open(stored, index, isLast) {
      if (stored.length < TAG_BYTES) throw damaged()
      const end = stored.length - TAG_BYTES
      const decipher = createDecipheriv('aes-256-gcm', own, nonceOf(index, isLast), {
        authTagLength: TAG_BYTES,
      })
      decipher.setAAD(authenticated).setAuthTag(stored.subarray(end))
      try {
        return Buffer.concat([decipher.update(stored.subarray(0, end)), decipher.final()])
      } catch (error) {
        throw damaged(error)
      }
    },
  }
}

/** Chunks and bytes of text, from the stored size. Throws `stored_data_damaged` for an impossible size. */
export function sealedSize(storedBytes: number): { chunks: number; textBytes: number } {
  const body = storedBytes - HEADER_BYTES
  const chunks = Math.ceil(body / STORED_CHUNK_BYTES)
  const textBytes = body - chunks * TAG_BYTES
  if (chunks < 1 || textBytes < (chunks - 1) * CHUNK_BYTES) throw damaged()
  return { chunks, textBytes }
}

export function sealBytes(key: OutputKey, where: SealedLocation, text: Uint8Array): Buffer {
  const sealer = createSealer(key, where)
  const parts = [sealer.header]
  for (let at = 0; ; at += CHUNK_BYTES) {
    const isLast = at + CHUNK_BYTES >= text.length
    parts.push(sealer.seal(text.subarray(at, at + CHUNK_BYTES), isLast))
    if (isLast) return Buffer.concat(parts)
  }
}

/** Throws `stored_data_damaged` when it was altered. */
export function openBytes(keys: OutputKeys, where: SealedLocation, stored: Uint8Array): Buffer {
  const opener = createOpener(keys, stored.subarray(0, HEADER_BYTES), where)
  const { chunks } = sealedSize(stored.length)
  const parts: Buffer[] = []
  for (let index = 0; index < chunks; index += 1) {
    const start = HEADER_BYTES + index * STORED_CHUNK_BYTES
    parts.push(opener.open(stored.subarray(start, start + STORED_CHUNK_BYTES), index, index === chunks - 1))
  }
  return Buffer.concat(parts)
}

/** 96 bits: seven zero bytes, the chunk's number, and 1 for the last chunk. */
function nonceOf(index: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12)
  nonce.writeUInt32BE(index, 7)
  nonce[11] = isLast ? 1 : 0
  return nonce
}

const associated = (header: Uint8Array, { tenant, location }: SealedLocation): Buffer =>
  Buffer.concat([header, Buffer.from(`\0${tenant}\0${location}`)])

/** For stored bytes that are not those that were written. */
export const damaged = (cause?: unknown): CofferdamError =>
  new CofferdamError('stored_data_damaged', undefined, { cause })
