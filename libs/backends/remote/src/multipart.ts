/**
 * Files as one body of `multipart/form-data`. Not with FormData: fetch (undici in Node 26) feeds it in the
 * background. If such a request is aborted half-way, a promise rejects that nobody can catch, which ends the
 * worker.
 */
import { randomBytes } from 'node:crypto'

/** Every part is named `file`, with `path` as its file name. */
export function multipart(files: readonly { path: string; bytes: Uint8Array }[]): {
  body: Uint8Array<ArrayBuffer>
  type: string
} {
  const boundary = `cofferdam-${randomBytes(16).toString('hex')}`
  const parts = files.flatMap(({ path, bytes }) => [
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${path}"\r\nContent-Type: application/octet-stream\r\n\r\n`,
    ),
    bytes,
    Buffer.from('\r\n'),
  ])
  const body = new Uint8Array(Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]))
  return { body, type: `multipart/form-data; boundary=${boundary}` }
}
