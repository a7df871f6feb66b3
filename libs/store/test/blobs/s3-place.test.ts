/** Blobs in a bucket of an S3 server that is not ours, through the AWS SDK. */
import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { checkBucket } from '../../src/blobs/s3-place.ts'
import { blobKey, blobText, exerciseBlobs, putBlob } from './blob-contract.ts'
import { breakFirst, openBucketBlobs, type BucketBlobs } from './open-bucket-blobs.ts'

const MiB = 1024 * 1024
let t: BucketBlobs
beforeAll(async () => {
  t = await openBucketBlobs()
})
afterEach(async () => {
  expect(t.bucket.unfinished()).toEqual([])
  await t.empty()
})
afterAll(() => t?.[Symbol.asyncDispose]())

exerciseBlobs('a bucket', () => t)

/** The operations that `work` needs. */
async function operationsOf(work: () => Promise<unknown>): Promise<string[]> {
  const before = t.bucket.operations.length
  await work()
  return t.bucket.operations.slice(before)
}

describe('a blob in a bucket', () => {
  it('is stored with one request, and from 5 MiB on in parts', async () => {
    expect(await operationsOf(() => putBlob(t, 'small'))).toEqual(['PutObject'])
    expect(await operationsOf(() => putBlob(t, randomBytes(11 * MiB)))).toEqual([
      'CreateMultipartUpload',
      'UploadPart',
      'UploadPart',
      'UploadPart',
      'CompleteMultipartUpload',
    ])
  })

  it('is refused when it was altered, cut or exchanged, in the part that is read', async () => {
    const ref = await putBlob(t, randomBytes(600_000))
    const [path = ''] = await t.stored()
    const bytes = await t.read(path)
    const flipped = Buffer.from(bytes)
    flipped[300_000] = (flipped[300_000] ?? 0) ^ 1
    const other = await t.read((await putBlob(t, randomBytes(600_000))).split('#')[0] ?? '')
    for (const change of [
      flipped,
      bytes.subarray(0, 500_000),
      other,
      Buffer.from('short'),
      Buffer.alloc(0),
    ]) {
      await t.replace(path, change)
      const error = { code: 'stored_data_damaged', message: expect.stringContaining('not what was written') }
      await expect(t.blobs.read(ref)).rejects.toMatchObject(error)
      await expect(t.blobs.read(ref, { start: 299_990, end: 300_010 })).rejects.toMatchObject(error)
    }
    await t.replace(path, flipped)
    // Other parts of the blob are undamaged and can be read.
    const found = await t.blobs.read(ref, { start: 0, end: 10 })
    expect(Buffer.from(found?.bytes ?? [])).toEqual(bytes.subarray(0, 10))
  })

  it('that was copied from a directory is read without a hash', async () => {
    const ref = (await putBlob(t, 'text')).replace(/-hashed#.*/, '')
    await t.replace(ref, Buffer.from('from a disk'))
    expect(await blobText(t, ref)).toBe('from a disk')
    expect(await blobText(t, ref, { start: 5, end: 8 })).toBe('a d')
  })

  it('is stored and read although the store throttles and breaks off', async () => {
    const bytes = randomBytes(1000)
    breakFirst(t.bucket, 'PutObject', 'slow_down', 1)
    const ref = await putBlob(t, bytes)
    breakFirst(t.bucket, 'GetObject', 'cut_body', 1)
    expect(Buffer.from((await t.blobs.read(ref))?.bytes ?? []).equals(bytes)).toBe(true)
    expect(await t.stored()).toHaveLength(1)
  })

  it('leaves neither object nor upload when its upload is aborted', async () => {
    const sink = await t.blobs.create(blobKey())
    await sink.write(randomBytes(6 * MiB))
    expect([await t.stored(), t.bucket.unfinished()]).toEqual([[], [expect.any(String)]])
    await sink.abort()
    expect([await t.stored(), t.bucket.unfinished()]).toEqual([[], []])
  })

  it('is not looked for in uploads where the store has no list of them', async () => {
    t.bucket.breaking = (arrived) => (arrived === 'ListMultipartUploads' ? 'not_implemented' : null)
    await t.blobs.sweepUnfinished(Date.now())
  })

  it('says that the store is away when reads and deletions fail for good', async () => {
    const ref = await putBlob(t, 'text')
    t.bucket.breaking = () => 'fail'
    await expect(t.blobs.read(ref)).rejects.toMatchObject({ code: 'store_unavailable' })
    await expect(t.blobs.delete(ref)).rejects.toMatchObject({ code: 'store_unavailable' })
    await expect(t.blobs.prune('99991231', async () => new Set())).rejects.toMatchObject({
      code: 'store_unavailable',
    })
    t.bucket.breaking = () => null
    expect(await blobText(t, ref)).toBe('text')
  })
})

describe('the check of a bucket', () => {
  it('writes, reads and deletes a probe object', async () => {
    expect(await operationsOf(() => checkBucket(t.bucket.settings))).toEqual([
      'PutObject',
      'GetObject',
      'DeleteObject',
      'GetObject',
    ])
    expect(await t.stored()).toEqual([])
  })

  it.each<[string, object, RegExp]>([
    ['a bucket that does not exist', { bucket: 'no-such-bucket' }, /NoSuchBucket.*Create the bucket/],
    ['no region', { region: undefined }, /COFFERDAM_BLOBS_REGION/],
  ])('says what to do about %s', async (_what, changed, message) => {
    await expect(checkBucket({ ...t.bucket.settings, ...changed })).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(message),
    })
  })

  it('says which page lists the rights when one is missing', async () => {
    t.bucket.breaking = () => 'denied'
    await expect(checkBucket(t.bucket.settings)).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(/AccessDenied.*rights that docs\/operations\/object-storage.md lists/),
    })
  })
})
