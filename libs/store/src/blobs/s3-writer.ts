/**
 * Writes one object. Up to PART_BYTES it is sent whole, with one request. More is sent in parts, one after
 * another, so that a writer holds at most one part in memory. An object is readable only after `finish`.
 *
 *   small ──finish──> stored
 *     └─more than a part──> upload begun ──finish──> stored
 *                             └─discard──> aborted
 */
import type { CompletedPart } from '@aws-sdk/client-s3'
import type { PlaceWriter } from './blob-place.ts'
import { failureName, isMissing, type Bucket } from './s3-client.ts'

/** The smallest part that S3 accepts before the last one. */
export const PART_BYTES = 5 * 1024 * 1024
/** The first buffer. It grows, because most blobs are small. */
const FIRST_BYTES = 64 * 1024

export function createS3Writer(bucket: Bucket, path: string): PlaceWriter {
  const { sdk } = bucket
  const target = { Bucket: bucket.settings.bucket, Key: bucket.keyOf(path) }
  const parts: CompletedPart[] = []
  let uploadId: string | undefined
  let pending = Buffer.alloc(0)
  let filled = 0
  let total = 0
  /** A request was sent that may have made the object readable. */
  let mayBeStored = false

  async function sendPart(): Promise<void> {
    uploadId ??= await bucket.run('the start of an upload', async (client, abortSignal) => {
      const begun = await client.send(new sdk.CreateMultipartUploadCommand(target), { abortSignal })
      return begun.UploadId
    })
    const PartNumber = parts.length + 1
    const part = { ...target, UploadId: uploadId, PartNumber, Body: pending.subarray(0, filled) }
    const { ETag } = await bucket.run('an upload', (client, abortSignal) =>
      client.send(new sdk.UploadPartCommand(part), { abortSignal }),
    )
    parts.push({ PartNumber, ETag })
    filled = 0
  }

  async function complete(): Promise<void> {
    const input = { ...target, UploadId: uploadId, MultipartUpload: { Parts: parts } }
    try {
      await bucket.run('the end of an upload', (client, abortSignal) =>
        client.send(new sdk.CompleteMultipartUploadCommand(input), { abortSignal }),
      )
    } catch (error) {
      // A repeated request whose first answer was lost finds no upload, because the object is there.
      if (failureName(error) !== 'NoSuchUpload' || (await storedBytes()) !== total) throw error
    }
  }

  const storedBytes = async (): Promise<number | null> => {
    const { ContentLength } = await bucket.run('a look at an object', (client, abortSignal) =>
      client.send(new sdk.HeadObjectCommand(target), { abortSignal }),
    )
    return ContentLength ?? null
  }

  return {
    async append(bytes) {
      total += bytes.length
      for (let at = 0; at < bytes.length;) {
        // A full part is sent only when another byte follows, because an object of one part needs no
        // multipart upload.
        if (filled === PART_BYTES) await sendPart()
        if (filled === pending.length) pending = grown(pending)
        const part = bytes.subarray(at, at + pending.length - filled)
        pending.set(part, filled)
        filled += part.length
        at += part.length
      }
    },
    async finish() {
      mayBeStored = true
      if (uploadId === undefined) {
        const whole = { ...target, Body: pending.subarray(0, filled) }
        await bucket.run('an upload', (client, abortSignal) =>
          client.send(new sdk.PutObjectCommand(whole), { abortSignal }),
        )
      } else {
        await sendPart()
        await complete()
      }
      pending = Buffer.alloc(0)
    },
    async discard() {
      pending = Buffer.alloc(0)
      // Failures are ignored here, because the caller reports the failure that led to this call. The sweeper
      // removes what cannot be removed now.
      if (uploadId !== undefined) {
        const upload = { ...target, UploadId: uploadId }
        await bucket
          .run('the end of an upload', (client, abortSignal) =>
            client.send(new sdk.AbortMultipartUploadCommand(upload), { abortSignal }),
          )
          .catch(() => undefined)
      }
      if (mayBeStored) await deleteObject(bucket, path).catch(() => undefined)
    },
  }
}

/** Copies `before` into a buffer of twice its size, but at most PART_BYTES. */
function grown(before: Buffer): Buffer<ArrayBuffer> {
  const after = Buffer.allocUnsafeSlow(Math.min(Math.max(FIRST_BYTES, 2 * before.length), PART_BYTES))
  before.copy(after)
  return after
}

export async function deleteObject(bucket: Bucket, path: string): Promise<void> {
  const target = { Bucket: bucket.settings.bucket, Key: bucket.keyOf(path) }
  await bucket
    .run('a deletion', (client, abortSignal) =>
      client.send(new bucket.sdk.DeleteObjectCommand(target), { abortSignal }),
    )
    .catch((error: unknown) => {
      // Some stores answer 404 where S3 answers 204.
      if (!isMissing(error)) throw error
    })
}
