/** The blob store over a place: encrypts or hashes what is written, and checks what is read. */
import {
  CofferdamError,
  isCofferdamError,
  type BlobKey,
  type BlobSink,
  type BlobStore,
} from '@cofferdam/contract'
import type { OutputKeys } from '../output-keys.ts'
import type { AskGone, BlobPlace, PlaceReader } from './blob-place.ts'
import {
  findBlob,
  hashedRefOf,
  newBlobPath,
  refOf,
  tenantFolder,
  type BlobPath,
  type FoundBlob,
} from './blob-ref.ts'
import { createTextHasher, readHashed } from './hashed-blobs.ts'
import { createSealingWriter, readSealed } from './sealed-blobs.ts'

/** Equal to the largest artifact (MAX_LIMITS.artifact_bytes). Only a fault can exceed it. */
const MAX_BLOB_BYTES = 64 * 1024 * 1024

/** The blob store with what retention needs. */
export interface KeptBlobs extends BlobStore {
  readonly isBucket: boolean
  /**
   * Deletes the blobs of executions from before `day` (`YYYYMMDD`), except those whose IDs `known` returns.
   * Asks `known` about at most a thousand at a time. Returns the number of executions that lost their blobs.
   */
  prune(day: string, known: AskGone): Promise<number>
  /** Deletes the blobs of one tenant's executions from before `day` whose ID `ended` returns. */
  pruneTenant(tenantId: string, day: string, ended: AskGone): Promise<number>
  /** Removes unfinished blobs that writers began before `beforeMs`. */
  sweepUnfinished(beforeMs: number): Promise<void>
}

export function createBlobStore(place: BlobPlace, keys: OutputKeys): KeptBlobs {
  async function pruneDays(tenant: string, before: string, gone: AskGone): Promise<number> {
    let deleted = 0
    for (const day of await place.days(tenant))
      if (day < before) deleted += await place.sweepDay(tenant, day, gone)
    return deleted
  }

  return {
    isBucket: place.isBucket,
    create: (key) => createSink(place, key, keys),
    async read(ref, range) {
      const blob = findBlob(ref)
      if (blob === null) return null
      await using stored = await place.open(blob.path)
      if (stored === null) return null
      return await readStored(blob, stored, keys, range).catch((error: unknown) => {
        if (!isCofferdamError(error) || error.code !== 'stored_data_damaged') throw error
        // For the log. Callers do not see it.
        const cause = new Error(`the blob ${refOf(blob.path)}`, { cause: error.cause })
        throw new CofferdamError(error.code, error.message, { cause })
      })
    },
    async delete(ref) {
      const blob = findBlob(ref)
      if (blob !== null) await place.delete(blob.path)
    },
    async prune(day, known) {
      let deleted = 0
      for (const tenant of await place.tenants())
        deleted += await pruneDays(tenant, day, async (ids) => {
          const kept = await known(ids)
          return new Set(ids.filter((id) => !kept.has(id)))
        })
      return deleted
    },
    pruneTenant: (tenantId, day, ended) => pruneDays(tenantFolder(tenantId), day, ended),
    sweepUnfinished: (beforeMs) => place.sweepUnfinished(beforeMs),
  }
}

/** Identifies the tenant by its folder, because a reader has only the reference. */
const sealedLocation = (blob: BlobPath) => ({ tenant: blob.tenant, location: refOf(blob) })

interface Range {
  start: number
  end: number
}

async function readStored(blob: FoundBlob, stored: PlaceReader, keys: OutputKeys, range?: Range) {
  const fetch = (start: number, end: number) => stored.read(start, end)
  if (blob.form === 'sealed')
    return await readSealed(keys, sealedLocation(blob.path), stored.size, fetch, range)
  if (blob.form === 'hashed') return await readHashed(blob.digest, stored.size, fetch, range)
  const total = stored.size
  const start = Math.min(Math.max(range?.start ?? 0, 0), total)
  const end = Math.min(Math.max(range?.end ?? total, start), total)
  return { bytes: start === end ? Buffer.alloc(0) : await stored.read(start, end), total }
}

/** What turns text into stored bytes. `end` returns the reference. */
interface TextWriter {
  write(text: Uint8Array): Promise<void>
  end(): Promise<string>
}

async function createSink(place: BlobPlace, key: BlobKey, keys: OutputKeys): Promise<BlobSink> {
  if (key.encrypt && keys.current === null)
    throw new CofferdamError('internal', 'The blob has to be encrypted, and there is no key for it.')
  const blob = newBlobPath(key, key.encrypt ? 'sealed' : place.isBucket ? 'hashed' : 'plain')
  const stored = await place.create(blob)
  const append = (bytes: Uint8Array) => stored.append(bytes)
  const text =
    key.encrypt && keys.current !== null
      ? sealingText(createSealingWriter(keys.current, sealedLocation(blob), append), blob)
      : place.isBucket
        ? hashingText(append, blob)
        : { write: append, end: async () => refOf(blob) }
  let state: 'open' | 'committed' | 'aborted' = 'open'
  let size = 0
  let ref = ''

  return {
    async write(chunk) {
      if (state !== 'open') throw new CofferdamError('internal', 'The blob was already committed or aborted.')
      size += chunk.length
      if (size > MAX_BLOB_BYTES)
        throw new CofferdamError('payload_too_large', `A blob may hold ${MAX_BLOB_BYTES} bytes.`)
      await text.write(chunk)
    },
    async commit() {
      if (state === 'committed') return ref
      if (state === 'aborted') throw new CofferdamError('internal', 'The blob was aborted.')
      ref = await text.end()
      await stored.finish()
      state = 'committed'
      return ref
    },
    async abort() {
      if (state !== 'open') return
      state = 'aborted'
      await stored.discard()
    },
  }
}

const sealingText = (writer: ReturnType<typeof createSealingWriter>, blob: BlobPath): TextWriter => ({
  write: (text) => writer.write(text),
  async end() {
    await writer.end()
    return refOf(blob)
  },
})

function hashingText(append: (bytes: Uint8Array) => Promise<void>, blob: BlobPath): TextWriter {
  const hasher = createTextHasher()
  return {
    async write(text) {
      hasher.add(text)
      await append(text)
    },
    async end() {
      const { hashes, digest } = hasher.end()
      await append(hashes)
      return hashedRefOf(blob, digest)
    },
  }
}
