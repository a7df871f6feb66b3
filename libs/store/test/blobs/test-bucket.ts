/**
 * A bucket for tests: the S3 server of the package fauxqs, which is not ours, behind a proxy of ours that
 * breaks requests on demand. The server has no list of unfinished uploads, so the proxy answers that one
 * request from what passed through it.
 */
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { BucketSettings } from '../../src/blobs/s3-client.ts'

const BUCKET = 'test-bucket'

/**
 * What the proxy does instead of passing a request on. `lose_answer` cuts the connection after the server has
 * done the request. `cut_body` cuts it in the middle of the answer's body. `hang` never answers.
 */
export type BucketFault = keyof typeof REFUSALS | 'cut' | 'lose_answer' | 'cut_body' | 'hang'

const REFUSALS = {
  slow_down: { status: 503, code: 'SlowDown' },
  fail: { status: 500, code: 'InternalError' },
  denied: { status: 403, code: 'AccessDenied' },
  not_implemented: { status: 501, code: 'NotImplemented' },
} as const

export interface TestBucket extends AsyncDisposable {
  settings: BucketSettings
  /** For a process that uses the bucket. */
  env: Record<string, string>
  /** Names of the operations that arrived, such as `PutObject`. */
  operations: string[]
  /** Decides about each operation that arrives. Default: none is broken. */
  breaking: (operation: string) => BucketFault | null
  keys(): Promise<string[]>
  get(key: string): Promise<Buffer>
  put(key: string, bytes: Uint8Array): Promise<void>
  remove(key: string): Promise<void>
  /** Uploads that were begun, and neither completed nor aborted. */
  unfinished(): string[]
}

interface Upload {
  key: string
  id: string
  begun: string
}

export async function startTestBucket(): Promise<TestBucket> {
  const { startFauxqs } = await import('fauxqs')
  const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false })
  server.createBucket(BUCKET)
  const uploads = new Map<string, Upload>()
  const proxy = createServer((from, to) => void forward(from, to).catch(() => to.destroy()))
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const endpoint = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`

  async function forward(from: IncomingMessage, to: ServerResponse): Promise<void> {
    const operation = operationOf(from)
    bucket.operations.push(operation)
    const fault = bucket.breaking(operation)
    const body = Buffer.concat(await from.toArray())
    if (fault === 'hang') return
    if (fault === 'cut') return void to.destroy()
    if (fault !== null && fault in REFUSALS) return refuse(to, REFUSALS[fault as keyof typeof REFUSALS])
    if (operation === 'ListMultipartUploads') return answer(to, 200, listXml([...uploads.values()]))
    const { statusCode = 502, headers, bytes } = await ask(from, body)
    keepUploads(operation, from.url ?? '', statusCode, bytes)
    if (fault === 'lose_answer') return void to.destroy()
    to.writeHead(statusCode, headers)
    if (fault !== 'cut_body') return void to.end(bytes)
    to.write(bytes.subarray(0, Math.floor(bytes.length / 2)), () => to.destroy())
  }

  async function ask({ method, url, headers }: IncomingMessage, body: Uint8Array) {
    const asked = request({ host: '127.0.0.1', port: server.port, method, path: url, headers })
    asked.end(body)
    const [answered] = (await once(asked, 'response')) as [IncomingMessage]
    return {
      statusCode: answered.statusCode,
      headers: answered.headers,
      bytes: Buffer.concat(await answered.toArray()),
    }
  }

  function keepUploads(operation: string, url: string, status: number, bytes: Buffer): void {
    if (status >= 300) return
    const { pathname, searchParams } = new URL(url, endpoint)
    const id = /<UploadId>([^<]+)</.exec(bytes.toString())?.[1]
    if (operation === 'CreateMultipartUpload' && id !== undefined)
      uploads.set(id, {
        id,
        key: decodeURIComponent(pathname.slice(`/${BUCKET}/`.length)),
        begun: new Date().toISOString(),
      })
    if (operation === 'CompleteMultipartUpload' || operation === 'AbortMultipartUpload')
      uploads.delete(searchParams.get('uploadId') ?? '')
  }

  /** Straight to the server, which checks no signature. */
  async function plain(method: string, path: string, body?: Uint8Array): Promise<Buffer> {
    const url = `http://127.0.0.1:${server.port}/${BUCKET}/${path}`
    const headers = { 'content-type': 'application/octet-stream' }
    const answered = await fetch(url, {
      method,
      headers,
      ...(body === undefined ? {} : { body: Buffer.from(body) }),
    })
    if (!answered.ok) throw new Error(`${method} ${path}: ${answered.status}`)
    return Buffer.from(await answered.arrayBuffer())
  }

  const bucket: TestBucket = {
    operations: [],
    breaking: () => null,
    settings: { bucket: BUCKET, prefix: 'fleet', endpoint, region: 'eu-central-1', pathStyle: true },
    env: {
      COFFERDAM_BLOBS: `s3://${BUCKET}/fleet`,
      COFFERDAM_BLOBS_ENDPOINT: endpoint,
      COFFERDAM_BLOBS_REGION: 'eu-central-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    },
    async keys() {
      const xml = (await plain('GET', '?list-type=2')).toString()
      return [...xml.matchAll(/<Key>([^<]+)</g)].map(([, key = '']) => key)
    },
    get: (key) => plain('GET', encodeURI(key)),
    put: async (key, bytes) => void (await plain('PUT', encodeURI(key), bytes)),
    remove: async (key) => void (await plain('DELETE', encodeURI(key))),
    unfinished: () => [...uploads.keys()],
    async [Symbol.asyncDispose]() {
      proxy.closeAllConnections()
      proxy.close()
      await server.stop()
    },
  }
  return bucket
}

function operationOf({ method = '', url = '' }: IncomingMessage): string {
  const { pathname, searchParams } = new URL(url, 'http://unused')
  const isBucket = pathname.split('/').filter(Boolean).length < 2
  const has = (name: string): boolean => searchParams.has(name)
  if (method === 'POST')
    return has('uploads')
      ? 'CreateMultipartUpload'
      : has('uploadId')
        ? 'CompleteMultipartUpload'
        : 'DeleteObjects'
  if (method === 'PUT') return has('partNumber') ? 'UploadPart' : 'PutObject'
  if (method === 'DELETE') return has('uploadId') ? 'AbortMultipartUpload' : 'DeleteObject'
  if (method === 'HEAD') return 'HeadObject'
  return has('uploads') ? 'ListMultipartUploads' : isBucket ? 'ListObjectsV2' : 'GetObject'
}

function answer(to: ServerResponse, status: number, xml: string): void {
  to.writeHead(status, { 'content-type': 'application/xml' }).end(xml)
}

const refuse = (to: ServerResponse, { status, code }: { status: number; code: string }): void =>
  answer(to, status, `<Error><Code>${code}</Code><Message>for a test</Message></Error>`)

const listXml = (uploads: readonly Upload[]): string =>
  `<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>${uploads
    .map(
      ({ key, id, begun }) =>
        `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${begun}</Initiated></Upload>`,
    )
    .join('')}</ListMultipartUploadsResult>`
