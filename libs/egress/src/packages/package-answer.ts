/** Answers of the package proxy: documents, refusals in words that pip and npm print, streamed files. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Ledger } from '../ledger.ts'
import { MirrorFailure, type MirrorFile } from './mirror.ts'

/** Thrown when the tenant's rules refuse a package. It is recorded and answered with 403. */
export class PackageRefused extends Error {
  readonly package: string

  constructor(name: string, reason: string) {
    super(reason)
    this.name = 'PackageRefused'
    this.package = name
  }
}

export function sendDocument(response: ServerResponse, type: string, text: string): void {
  response.writeHead(200, {
    'content-type': type,
    'content-length': Buffer.byteLength(text),
    // One address has several forms, such as HTML and JSON, and answers differ between tenants.
    vary: 'accept',
    'cache-control': 'no-store',
  })
  response.end(text)
}

/** pip prints the reason phrase, and npm the JSON body's `error`. Both are the same sentence. */
export function sendFailure(response: ServerResponse, error: unknown, ledger: Ledger): void {
  const status = error instanceof PackageRefused ? 403 : error instanceof MirrorFailure ? error.http : 502
  const reason =
    error instanceof PackageRefused || error instanceof MirrorFailure
      ? error.message
      : 'the package mirror gave an answer that cannot be read'
  if (error instanceof PackageRefused) ledger.refusedPackage(error.package, error.message)
  // If the program went away, or its bytes ran out in the middle of a file, the mirror did nothing wrong.
  else if (status === 502 && !response.destroyed && (error instanceof MirrorFailure || !response.headersSent))
    ledger.mirrorFailed(reason)
  if (response.headersSent) {
    response.destroy()
    return
  }
  const body = JSON.stringify({ error: reason })
  response.writeHead(status, reason.replaceAll(/[^\u0020-\u007e]/g, '?').slice(0, 512), {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'x-cofferdam-refused': 'packages',
  })
  response.end(body)
}

/** Streams `file` to the program, counted like all its traffic. Resolves when the program has all of it. */
export async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  file: MirrorFile,
  ledger: Ledger,
): Promise<void> {
  response.writeHead(200, {
    'content-type': 'application/octet-stream',
    ...(file.bytes === null ? {} : { 'content-length': file.bytes }),
    'cache-control': 'no-store',
  })
  if (request.method === 'HEAD') {
    file.body.destroy()
    response.end()
    return
  }
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (ledger.passes('received', chunk.length)) done(null, chunk)
      else done(new Error('the execution has spent its bytes'))
    },
  })
  await pipeline(file.body, counted, response)
}
