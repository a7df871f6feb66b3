/**
 * Blobs in a bucket: one object each, `<prefix>/tenant/day/execution/file`. Reads ask for byte ranges, so
 * that memory does not grow with an object.
 */
import { randomBytes } from 'node:crypto'
import { CofferdamError } from '@cofferdam/contract'
import type { GetObjectCommandOutput } from '@aws-sdk/client-s3'
import { damaged, STORED_CHUNK_BYTES } from '../sealed-format.ts'
import { DAY_FOLDER, type BlobPlace, type PlaceReader } from './blob-place.ts'
import { refOf } from './blob-ref.ts'
import { failureName, isMissing, openBucket, type Bucket, type BucketSettings } from './s3-client.ts'
import { foldersOf, sweepDay, sweepUploads } from './s3-sweep.ts'
import { createS3Writer, deleteObject } from './s3-writer.ts'

/**
 * Bytes at the end of an object that `open` reads, together with its size. They contain all hashes of the
 * largest blob, or the last chunk of an encrypted one. An object that is not longer needs no other request.
 */
const TAIL_BYTES = STORED_CHUNK_BYTES
/**
 * How often a range is read when its bytes break off. The SDK repeats a request only if no byte has arrived.
 */
const READS = 3
/** How long a successful check counts. /readyz asks every few seconds, and a check takes four requests. */
const CHECK_MS = 30_000

export async function createS3Place(settings: BucketSettings): Promise<BlobPlace> {
  const bucket = await openBucket(settings)
  let goodUntilMs = 0
  return {
    isBucket: true,
    create: async (blob) => createS3Writer(bucket, refOf(blob)),
    open: (blob) => openObject(bucket, bucket.keyOf(refOf(blob))),
    delete: (blob) => deleteObject(bucket, refOf(blob)),
    tenants: () => foldersOf(bucket, ''),
    days: async (tenant) => (await foldersOf(bucket, `${tenant}/`)).filter((name) => DAY_FOLDER.test(name)),
    sweepDay: (tenant, day, gone) => sweepDay(bucket, `${tenant}/${day}/`, gone),
    sweepUnfinished: (beforeMs) => sweepUploads(bucket, beforeMs),
    async check() {
      if (performance.now() < goodUntilMs) return
      await probe(bucket)
      goodUntilMs = performance.now() + CHECK_MS
    },
    [Symbol.dispose]: () => bucket.close(),
  }
}

/** Null when there is no such object. */
async function openObject(bucket: Bucket, key: string): Promise<PlaceReader | null> {
  const tail = await readTail(bucket, key)
  if (tail === null) return null
  const { size } = tail
  const tailStart = size - tail.bytes.length
  return {
    size,
    async read(start, end) {
      if (start >= tailStart) return tail.bytes.subarray(start - tailStart, end - tailStart)
      const found = await readRange(bucket, key, `bytes=${start}-${end - 1}`)
      if (found === null) throw new CofferdamError('not_found', 'It was deleted while it was read.')
      // Replaced since it was opened.
      if (found.size !== size || found.bytes.length !== end - start) throw damaged()
      return found.bytes
    },
    [Symbol.asyncDispose]: async () => undefined,
  }
}

/** The last TAIL_BYTES, or all of a smaller object. */
async function readTail(bucket: Bucket, key: string): Promise<FoundBytes | null> {
  // S3 refuses a suffix range only for an empty object. Some other stores also refuse a suffix that is longer
  // than the object, so the second try asks for the first bytes.
  for (const range of [`bytes=-${TAIL_BYTES}`, `bytes=0-${TAIL_BYTES - 1}`])
    try {
      return await readRange(bucket, key, range)
    } catch (error) {
      if (failureName(error) !== 'InvalidRange') throw error
    }
  return { bytes: new Uint8Array(), size: 0 }
}

interface FoundBytes {
  bytes: Uint8Array
  /** Of the whole object. */
  size: number
}

async function readRange(bucket: Bucket, key: string, Range: string): Promise<FoundBytes | null> {
  const get = new bucket.sdk.GetObjectCommand({ Bucket: bucket.settings.bucket, Key: key, Range })
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await bucket.run('a read', async (client, abortSignal) =>
        bytesOf(await client.send(get, { abortSignal }), abortSignal),
      )
    } catch (error) {
      if (isMissing(error)) return null
      if (failureName(error) !== BROKEN_OFF || attempt === READS) throw error
    }
  }
}

const BROKEN_OFF = 'BrokenOff'

async function bytesOf(answer: GetObjectCommandOutput, signal: AbortSignal): Promise<FoundBytes> {
  const { Body, ContentLength = 0, ContentRange = '' } = answer
  const stop = (): unknown => Body !== undefined && 'destroy' in Body && Body.destroy()
  signal.addEventListener('abort', stop, { once: true })
  try {
    const bytes = (await Body?.transformToByteArray()) ?? new Uint8Array()
    const size = Number(/\/(\d+)$/.exec(ContentRange)?.[1] ?? ContentLength)
    return { bytes, size }
  } catch (error) {
    const broken = new Error('The bytes of an object broke off.', { cause: error })
    broken.name = BROKEN_OFF
    throw broken
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** Throws like `BlobPlace.check`. */
export async function checkBucket(settings: BucketSettings): Promise<void> {
  using place = await createS3Place(settings)
  await place.check()
}

/** Does with a small object all that is done with blobs, so that a missing right is noticed. */
async function probe(bucket: Bucket): Promise<void> {
  const path = `.check-${randomBytes(8).toString('hex')}`
  const writer = createS3Writer(bucket, path)
  await writer.append(Buffer.from(path))
  await writer.finish()
  const found = await readRange(bucket, bucket.keyOf(path), 'bytes=0-63')
  await deleteObject(bucket, path)
  // Without the right to list, the store answers AccessDenied for a missing object, and this read throws.
  const gone = await readRange(bucket, bucket.keyOf(path), 'bytes=0-63')
  if (found === null || Buffer.compare(found.bytes, Buffer.from(path)) !== 0 || gone !== null)
    throw new CofferdamError(
      'config_invalid',
      'The bucket does not return what was written to it a moment ago, or what was deleted. Use a store with ' +
        'read-after-write consistency and byte ranges.',
    )
}
