/** A blob store in the bucket of a foreign server, for one test file. */
import { randomBytes } from 'node:crypto'
import { vi } from 'vitest'
import { createBlobStore } from '../../src/blobs/blob-store.ts'
import { createS3Place } from '../../src/blobs/s3-place.ts'
import { createOutputKeys } from '../../src/output-keys.ts'
import { startTestBucket, type BucketFault, type TestBucket } from './test-bucket.ts'
import type { SeenBlobs } from './blob-contract.ts'

export interface BucketBlobs extends SeenBlobs, AsyncDisposable {
  bucket: TestBucket
  /** Removes all blobs, and stops breaking requests. */
  empty(): Promise<void>
}

export async function openBucketBlobs(): Promise<BucketBlobs> {
  const bucket = await startTestBucket()
  // The SDK looks for credentials in the environment.
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test')
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test')
  const place = await createS3Place(bucket.settings)
  const keyOf = (path: string): string => `${bucket.settings.prefix}/${path}`
  return {
    bucket,
    blobs: createBlobStore(place, createOutputKeys([{ id: 'k', key: randomBytes(32) }])),
    stored: async () => (await bucket.keys()).map((key) => key.slice(keyOf('').length)),
    read: (path) => bucket.get(keyOf(path)),
    replace: (path, bytes) => bucket.put(keyOf(path), bytes),
    remove: (path) => bucket.remove(keyOf(path)),
    async empty() {
      bucket.breaking = () => null
      for (const key of await bucket.keys()) await bucket.remove(key)
    },
    async [Symbol.asyncDispose]() {
      place[Symbol.dispose]()
      vi.unstubAllEnvs()
      await bucket[Symbol.asyncDispose]()
    },
  }
}

/** Breaks the first `times` requests of one kind. */
export function breakFirst(bucket: TestBucket, operation: string, fault: BucketFault, times: number): void {
  let left = times
  bucket.breaking = (arrived) => {
    if (arrived !== operation || left === 0) return null
    left -= 1
    return fault
  }
}
