/** Retention in a bucket: lists a thousand objects at a time, and deletes them with one request a page. */
import type { ListMultipartUploadsCommandOutput, ListObjectsV2CommandOutput } from '@aws-sdk/client-s3'
import { CofferdamError } from '@cofferdam/contract'
import { EXECUTION_FOLDER, type AskGone } from './blob-place.ts'
import { failureName, type Bucket } from './s3-client.ts'

/** The names of folders below `path`, which ends with `/` or is empty. */
export async function foldersOf(bucket: Bucket, path: string): Promise<string[]> {
  const found: string[] = []
  const prefix = bucket.keyOf(path)
  for await (const { CommonPrefixes = [] } of pagesOf(bucket, prefix, '/'))
    for (const { Prefix = '' } of CommonPrefixes) found.push(Prefix.slice(prefix.length, -1))
  return found
}

/** Deletes the objects below `path` of executions whose ID `gone` returns. Returns how many executions. */
export async function sweepDay(bucket: Bucket, path: string, gone: AskGone): Promise<number> {
  const prefix = bucket.keyOf(path)
  const executionOf = (key: string): string => key.slice(prefix.length).split('/', 1)[0] ?? ''
  let deleted = 0
  /**
   * The last execution of the previous page. Keys are listed in order, so only this one can continue on the
   * next page and would be counted twice.
   */
  let last = ''
  for await (const { Contents = [] } of pagesOf(bucket, prefix)) {
    const keys = Contents.flatMap(({ Key }) => Key ?? [])
    const ids = [...new Set(keys.map(executionOf))].filter((id) => EXECUTION_FOLDER.test(id))
    if (ids.length === 0) continue
    const some = await gone(ids)
    await deleteAll(
      bucket,
      keys.filter((key) => some.has(executionOf(key))),
    )
    deleted += some.size - (some.has(last) ? 1 : 0)
    last = ids.at(-1) ?? ''
  }
  return deleted
}

/** Aborts uploads that began before `beforeMs`: their parts are invisible, and cost as much as objects. */
export async function sweepUploads(bucket: Bucket, beforeMs: number): Promise<void> {
  for await (const { Uploads = [] } of uploadPages(bucket))
    for (const { Key, UploadId, Initiated } of Uploads)
      if (Initiated !== undefined && Initiated.getTime() < beforeMs)
        await bucket.run('the end of an upload', (client, abortSignal) => {
          const upload = { Bucket: bucket.settings.bucket, Key, UploadId }
          return client.send(new bucket.sdk.AbortMultipartUploadCommand(upload), { abortSignal })
        })
}

async function* uploadPages(bucket: Bucket): AsyncGenerator<ListMultipartUploadsCommandOutput> {
  const common = { Bucket: bucket.settings.bucket, Prefix: bucket.keyOf('') }
  let KeyMarker: string | undefined
  let UploadIdMarker: string | undefined
  do {
    const list = new bucket.sdk.ListMultipartUploadsCommand({ ...common, KeyMarker, UploadIdMarker })
    let page: ListMultipartUploadsCommandOutput
    try {
      page = await bucket.run('a list of uploads', (client, abortSignal) =>
        client.send(list, { abortSignal }),
      )
    } catch (error) {
      // Some stores have no such list. They need a lifecycle rule (docs/operations/object-storage.md).
      if (NO_LIST.has(failureName(error))) return
      throw error
    }
    yield page
    KeyMarker = page.IsTruncated === true ? page.NextKeyMarker : undefined
    UploadIdMarker = page.NextUploadIdMarker
  } while (KeyMarker !== undefined)
}

const NO_LIST = new Set(['NotImplemented', 'MethodNotAllowed'])

async function* pagesOf(
  bucket: Bucket,
  Prefix: string,
  Delimiter?: string,
): AsyncGenerator<ListObjectsV2CommandOutput> {
  const { sdk, settings } = bucket
  const common = { Bucket: settings.bucket, Prefix, ...(Delimiter === undefined ? {} : { Delimiter }) }
  let ContinuationToken: string | undefined
  do {
    const list = new sdk.ListObjectsV2Command({ ...common, ContinuationToken })
    const page: ListObjectsV2CommandOutput = await bucket.run('a list of objects', (client, abortSignal) =>
      client.send(list, { abortSignal }),
    )
    yield page
    ContinuationToken = page.IsTruncated === true ? page.NextContinuationToken : undefined
  } while (ContinuationToken !== undefined)
}

async function deleteAll(bucket: Bucket, keys: string[]): Promise<void> {
  if (keys.length === 0) return
  const { sdk, settings } = bucket
  const Delete = { Objects: keys.map((Key) => ({ Key })), Quiet: true }
  const { Errors = [] } = await bucket.run('deletions', (client, abortSignal) =>
    client.send(new sdk.DeleteObjectsCommand({ Bucket: settings.bucket, Delete }), { abortSignal }),
  )
  if (Errors.length > 0)
    throw new CofferdamError(
      'store_unavailable',
      `The object store kept ${Errors.length} of ${keys.length} objects that should be deleted ` +
        `(${Errors[0]?.Code ?? 'unknown'}). The next round tries again.`,
    )
}
