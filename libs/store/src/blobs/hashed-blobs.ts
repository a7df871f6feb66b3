/**
 * Blobs whose bytes are checked when they are read, also in parts:
 *
 *   text     as it was written
 *   hashes   SHA-256 of each 256 KiB of text, 32 bytes each
 *
 * The reference has the digest of length and hashes, and lies in Postgres with the row of the execution. So
 * somebody who may write to the bucket cannot alter, cut or exchange a blob without being noticed.
 */
import { createHash } from 'node:crypto'
import { damaged } from '../sealed-format.ts'

/** The API reads this much at once. The largest blob (64 MiB) then has 8 KiB of hashes. */
export const HASHED_BYTES = 256 * 1024
const HASH_BYTES = 32

/**
 * Takes the text in order. `end` returns the hashes to store behind the text, and the digest for the
 * reference.
 */
export interface TextHasher {
  add(text: Uint8Array): void
  end(): { hashes: Uint8Array; digest: string }
}

export function createTextHasher(): TextHasher {
  const hashes: Buffer[] = []
  let chunk = createHash('sha256')
  let filled = 0
  let total = 0
  const close = (): void => {
    hashes.push(chunk.digest())
    chunk = createHash('sha256')
    filled = 0
  }
  return {
    add(text) {
      for (let at = 0; at < text.length;) {
        const part = text.subarray(at, at + HASHED_BYTES - filled)
        chunk.update(part)
        filled += part.length
        at += part.length
        if (filled === HASHED_BYTES) close()
      }
      total += text.length
    },
    end() {
      if (filled > 0) close()
      const all = Buffer.concat(hashes)
      return { hashes: all, digest: digestOf(total, all) }
    },
  }
}

/**
 * Reads a part of a blob through `fetch`: its hashes, and only the chunks that contain the part. Throws
 * `stored_data_damaged` when the bytes differ from what was written.
 */
export async function readHashed(
  digest: string,
  storedBytes: number,
  fetch: (start: number, end: number) => Promise<Uint8Array>,
  range?: { start: number; end: number },
): Promise<{ bytes: Uint8Array; total: number }> {
  const chunks = Math.ceil(storedBytes / (HASHED_BYTES + HASH_BYTES))
  const total = storedBytes - chunks * HASH_BYTES
  if (total < 0 || (chunks > 0 && total <= (chunks - 1) * HASHED_BYTES)) throw damaged()
  const hashes = Buffer.from(await fetch(total, storedBytes))
  if (digestOf(total, hashes) !== digest) throw damaged()
  const start = Math.min(Math.max(range?.start ?? 0, 0), total)
  const end = Math.min(Math.max(range?.end ?? total, start), total)
  if (start === end) return { bytes: Buffer.alloc(0), total }
  const first = Math.floor(start / HASHED_BYTES)
  const from = first * HASHED_BYTES
  const bytes = await fetch(from, Math.min(Math.ceil(end / HASHED_BYTES) * HASHED_BYTES, total))
  for (let at = 0; at < bytes.length; at += HASHED_BYTES) {
    const hash = createHash('sha256')
      .update(bytes.subarray(at, at + HASHED_BYTES))
      .digest()
    const index = first + at / HASHED_BYTES
    if (!hash.equals(hashes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES))) throw damaged()
  }
  return { bytes: bytes.subarray(start - from, end - from), total }
}

function digestOf(total: number, hashes: Uint8Array): string {
  const length = Buffer.alloc(8)
  length.writeBigUInt64BE(BigInt(total))
  return createHash('sha256').update(length).update(hashes).digest('hex')
}
