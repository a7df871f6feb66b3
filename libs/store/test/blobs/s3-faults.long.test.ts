/** Blobs in a bucket that throttles, fails, breaks connections and hangs. */
import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, it, describe } from 'vitest'
import type { BucketFault } from './test-bucket.ts'
import { blobKey, putBlob } from './blob-contract.ts'
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

describe('a blob in a bucket', () => {
  it.each<[string, BucketFault, number]>([
    ['PutObject', 'slow_down', 3],
    ['PutObject', 'lose_answer', 1],
    ['UploadPart', 'fail', 2],
    ['UploadPart', 'cut', 1],
    ['CompleteMultipartUpload', 'lose_answer', 1],
  ])('is stored although %s meets %s', async (operation, fault, times) => {
    breakFirst(t.bucket, operation, fault, times)
    const bytes = randomBytes(operation === 'PutObject' ? 1000 : 6 * MiB)
    const ref = await putBlob(t, bytes)
    expect(Buffer.from((await t.blobs.read(ref))?.bytes ?? []).equals(bytes)).toBe(true)
    expect(await t.stored()).toHaveLength(1)
  })

  it.each<[BucketFault, number]>([
    ['slow_down', 3],
    ['cut', 1],
    ['cut_body', 2],
  ])('is read although the answers meet %s', async (fault, times) => {
    const bytes = randomBytes(300_000)
    const ref = await putBlob(t, bytes)
    breakFirst(t.bucket, 'GetObject', fault, times)
    expect(Buffer.from((await t.blobs.read(ref))?.bytes ?? []).equals(bytes)).toBe(true)
  })

  it.each(['CreateMultipartUpload', 'UploadPart', 'CompleteMultipartUpload'])(
    'leaves neither object nor upload when %s fails for good',
    async (operation) => {
      t.bucket.breaking = (arrived) => (arrived === operation ? 'slow_down' : null)
      const sink = await t.blobs.create(blobKey())
      const storing = async () => {
        await sink.write(randomBytes(6 * MiB))
        await sink.commit()
      }
      await expect(storing()).rejects.toMatchObject({
        code: 'store_unavailable',
        message: expect.stringMatching(/^The object store did not do .*: SlowDown\.$/),
      })
      await sink.abort()
      expect([await t.stored(), t.bucket.unfinished()]).toEqual([[], []])
    },
  )

  it('leaves an upload that cannot be aborted to the sweeper, which spares young ones', async () => {
    t.bucket.breaking = (arrived) => (/Complete|Abort/.test(arrived) ? 'fail' : null)
    const sink = await t.blobs.create(blobKey())
    await sink.write(randomBytes(6 * MiB))
    await expect(sink.commit()).rejects.toMatchObject({ code: 'store_unavailable' })
    await sink.abort()
    expect(t.bucket.unfinished()).toHaveLength(1)
    t.bucket.breaking = () => null
    await t.blobs.sweepUnfinished(Date.now() - 60_000)
    expect(t.bucket.unfinished()).toHaveLength(1)
    await t.blobs.sweepUnfinished(Date.now() + 60_000)
    expect(t.bucket.unfinished()).toEqual([])
  })

  it('is refused in time when the store never answers', async () => {
    const ref = await putBlob(t, 'text')
    t.bucket.breaking = () => 'hang'
    const sink = await t.blobs.create(blobKey())
    const failures = await Promise.allSettled([t.blobs.read(ref), sink.commit()])
    expect(failures).toEqual(
      failures.map(() => ({
        status: 'rejected',
        reason: expect.objectContaining({
          code: 'store_unavailable',
          message: expect.stringContaining('it did not answer in time'),
        }),
      })),
    )
    t.bucket.breaking = () => null
    await sink.abort()
    expect(await t.stored()).toHaveLength(1)
  })
})
