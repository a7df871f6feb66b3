/** Writes and reads encrypted blobs with one chunk in memory, whatever their size. */
import type { SealedLocation } from '../sealed-format.ts'
import {
  CHUNK_BYTES,
  createOpener,
  createSealer,
  HEADER_BYTES,
  sealedSize,
  STORED_CHUNK_BYTES,
} from '../sealed-format.ts'
import type { OutputKey, OutputKeys } from '../output-keys.ts'

/** Chunks that are fetched at once: 1 MiB. A request to a bucket takes longer than its bytes. */
const FETCHED_CHUNKS = 16

export interface SealingWriter {
  write(text: Uint8Array): Promise<void>
  end(): Promise<void>
}

/** Encrypts what is written and passes it to `store` in order, piece by piece. */
export function createSealingWriter(
  key: OutputKey,
  where: SealedLocation,
  store: (bytes: Uint8Array) => Promise<void>,
): SealingWriter {
  const sealer = createSealer(key, where)
  const pending = Buffer.alloc(CHUNK_BYTES)
  let filled = 0
  let begun = false

  async function put(bytes: Uint8Array): Promise<void> {
    const first = begun ? [] : [sealer.header]
    begun = true
    await store(Buffer.concat([...first, bytes]))
  }

  return {
    async write(text) {
      for (let at = 0; at < text.length;) {
        // Seal a full chunk only when a byte follows, because only then it is certainly not the last.
        if (filled === CHUNK_BYTES) {
          await put(sealer.seal(pending, false))
          filled = 0
        }
        const part = text.subarray(at, at + CHUNK_BYTES - filled)
        pending.set(part, filled)
        filled += part.length
        at += part.length
      }
    },
    end: () => put(sealer.seal(pending.subarray(0, filled), true)),
  }
}

/**
 * Reads a part of an encrypted blob through `fetch`. Always opens the last chunk too, to detect a blob that
 * was cut at the end of a chunk.
 */
export async function readSealed(
  keys: OutputKeys,
  where: SealedLocation,
  storedBytes: number,
  fetch: (start: number, end: number) => Promise<Uint8Array>,
  range?: { start: number; end: number },
): Promise<{ bytes: Uint8Array; total: number }> {
  const opener = createOpener(keys, await fetch(0, HEADER_BYTES), where)
  const { chunks, textBytes } = sealedSize(storedBytes)
  const offsetOf = (index: number) => Math.min(HEADER_BYTES + index * STORED_CHUNK_BYTES, storedBytes)
  const lastIndex = chunks - 1
  const last = opener.open(await fetch(offsetOf(lastIndex), storedBytes), lastIndex, true)
  const start = Math.min(Math.max(range?.start ?? 0, 0), textBytes)
  const end = Math.min(Math.max(range?.end ?? textBytes, start), textBytes)
  const bytes = Buffer.alloc(end - start)
  const place = (text: Buffer, index: number): void => {
    const offset = index * CHUNK_BYTES
    const from = Math.max(start, offset)
    bytes.set(text.subarray(from - offset, Math.min(end, offset + CHUNK_BYTES) - offset), from - start)
  }
  const wanted = Math.min(Math.ceil(end / CHUNK_BYTES), lastIndex)
  for (let first = Math.floor(start / CHUNK_BYTES); first < wanted; first += FETCHED_CHUNKS) {
    const behind = Math.min(first + FETCHED_CHUNKS, wanted)
    const stored = await fetch(offsetOf(first), offsetOf(behind))
    for (let index = first; index < behind; index += 1) {
      const at = (index - first) * STORED_CHUNK_BYTES
      place(opener.open(stored.subarray(at, at + STORED_CHUNK_BYTES), index, false), index)
    }
  }
  if (end > lastIndex * CHUNK_BYTES) place(last, lastIndex)
  return { bytes, total: textBytes }
}
