/**
 * Blobs of one local run, in memory. Bounded by what one attempt may write: two outputs of 16 MiB and 16 MiB of
 * artifacts (BOUNDS); gone with the process.
 */
import type { BlobStore } from '@cofferdam/contract'

/** Makes an empty store. */
export function createMemoryBlobs(): BlobStore {
  const blobs = new Map<string, Buffer>()
  return {
    create: (key) => {
      const chunks: Uint8Array[] = []
      const ref = `${key.executionId}/${key.attempt}/${key.name}`
      return Promise.resolve({
        write: (chunk) => {
          chunks.push(Uint8Array.from(chunk))
          return Promise.resolve()
        },
        commit: () => {
          blobs.set(ref, Buffer.concat(chunks))
          return Promise.resolve(ref)
        },
        abort: () => {
          chunks.length = 0
          return Promise.resolve()
        },
      })
    },
    read: (ref, range) => {
      const whole = blobs.get(ref)
      if (whole === undefined) return Promise.resolve(null)
      const bytes = range === undefined ? whole : whole.subarray(range.start, range.end)
      return Promise.resolve({ bytes, total: whole.length })
    },
    delete: (ref) => {
      blobs.delete(ref)
      return Promise.resolve()
    },
  }
}
