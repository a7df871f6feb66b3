/** A blob store in memory that counts open sinks. It can fail on create, write or commit. */
import type { BlobKey, BlobStore } from '@cofferdam/contract'

export interface MemoryBlobs extends BlobStore {
  readonly committed: Map<string, Buffer>
  /** Sinks neither committed nor aborted. */
  readonly open: number
}

export function createMemoryBlobs(failing?: 'create' | 'write' | 'commit'): MemoryBlobs {
  const committed = new Map<string, Buffer>()
  let open = 0
  const refOf = (key: BlobKey) => `${key.tenantId}/${key.executionId}/${key.attempt}/${key.name}`
  return {
    committed,
    get open() {
      return open
    },
    async create(key) {
      if (failing === 'create') throw new Error('disk full')
      open += 1
      const chunks: Buffer[] = []
      let done = false
      return {
        async write(chunk) {
          if (failing === 'write') throw new Error('disk full')
          await Promise.resolve()
          chunks.push(Buffer.from(chunk))
        },
        async commit() {
          if (failing === 'commit') throw new Error('disk full')
          done = true
          open -= 1
          committed.set(refOf(key), Buffer.concat(chunks))
          return refOf(key)
        },
        async abort() {
          if (!done) open -= 1
          done = true
        },
      }
    },
    async read(ref) {
      const bytes = committed.get(ref)
      return bytes === undefined ? null : { bytes, total: bytes.length }
    },
    async delete(ref) {
      committed.delete(ref)
    },
  }
}
