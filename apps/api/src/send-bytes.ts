/** Sends stored bytes with Range support, in pieces, so that memory does not grow with the output. */
import { Readable } from 'node:stream'
import { CofferdamError, type BlobStore } from '@cofferdam/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { DECIDING_BYTES, mediaTypeOf } from './media-type.ts'

/** 256 KiB: sixteen of the socket's usual buffers, and few enough reads for the 16 MiB bound of an output. */
const PIECE_BYTES = 256 * 1024

/** `end` is exclusive. */
interface ByteRange {
  start: number
  end: number
}

/** Bytes that can be read in parts. A read returns fewer bytes than asked for if they were deleted. */
export interface ByteSource {
  total: number
  read(range: ByteRange): Promise<Uint8Array>
}

export function bytesSource(bytes: Uint8Array): ByteSource {
  return { total: bytes.length, read: async ({ start, end }) => bytes.subarray(start, end) }
}

/** A blob as a source. Null when it was deleted. */
export async function blobSource(blobs: BlobStore, ref: string): Promise<ByteSource | null> {
  const probe = await blobs.read(ref, { start: 0, end: 1 })
  if (probe === null) return null
  return sourceOf(blobs, ref, probe.total)
}

const sourceOf = (blobs: BlobStore, ref: string, total: number): ByteSource => ({
  total,
  read: async (range) => (await blobs.read(ref, range))?.bytes ?? new Uint8Array(),
})

/**
 * The responses of a route that ends in `sendBytes`, for the OpenAPI document. The document describes files
 * as bytes, because the media type of a file (media-type.ts) is known only when it is sent.
 */
export function byteResponses(contentType: string, what: string) {
  const content = { [contentType]: { schema: z.string() } }
  return {
    200: { description: `The whole ${what}.`, content },
    206: { description: 'The range asked for.', content },
    304: z.undefined().describe('It has not changed: If-None-Match names its ETag.'),
  }
}

/** For the description of a route that ends in `sendFile`. */
export const FILE_IS_DOWNLOAD =
  'Always a download: a program wrote it, so no browser may show it as a page. Content-Type is decided by ' +
  'its first bytes, never by its name: PNG, JPEG, GIF, WebP, AVIF, PDF, JSON, CSV, plain text, or else ' +
  'application/octet-stream.'

/** Answers 200, 206 or 304. Throws `range_not_satisfiable` (416) with the total in Content-Range. */
export async function sendBytes(
  request: FastifyRequest,
  reply: FastifyReply,
  source: ByteSource,
  options: { contentType: string; etag: string; disposition?: string },
): Promise<FastifyReply> {
  const etag = `"${options.etag}"`
  void reply.headers({
    'content-type': options.contentType,
    'accept-ranges': 'bytes',
    etag,
    // Ended outputs never change, but who may see them does: the browser must ask again each time.
    'cache-control': 'private, no-cache',
    ...(options.disposition === undefined ? {} : { 'content-disposition': options.disposition }),
  })
  if (request.headers['if-none-match'] === etag) return reply.code(304).send()
  // If-Range with another ETag: the client has a part of another version, so it gets the whole (RFC 9110
  // §13.1.5).
  const ifRange = request.headers['if-range']
  const header = ifRange === undefined || ifRange === etag ? request.headers.range : undefined
  const selected = selectRange(header, source.total)
  if (selected.kind === 'outside') {
    void reply.header('content-range', `bytes */${source.total}`).removeHeader('content-type')
    throw new CofferdamError('range_not_satisfiable', undefined, { details: { total: source.total } })
  }
  const range = selected.kind === 'part' ? selected.range : { start: 0, end: source.total }
  if (selected.kind === 'part') {
    void reply.code(206).header('content-range', `bytes ${range.start}-${range.end - 1}/${source.total}`)
  }
  void reply.header('content-length', String(range.end - range.start))
  // fastify keeps the content-length of a stream for HEAD and sends none of its bytes.
  const sent = request.method === 'HEAD' ? [] : pieces(source, range)
  return reply.send(Readable.from(sent, { objectMode: false, highWaterMark: PIECE_BYTES }))
}

async function* pieces(source: ByteSource, range: ByteRange): AsyncGenerator<Uint8Array> {
  for (let at = range.start; at < range.end;) {
    const piece = await source.read({ start: at, end: Math.min(at + PIECE_BYTES, range.end) })
    // The blob was deleted meanwhile. The broken connection tells the client that the body is incomplete.
    if (piece.length === 0) throw new Error('the blob ended before its size')
    at += piece.length
    yield piece
  }
}

/**
 * Sends a file that a program wrote, always as a download, so that no browser shows it as a page. Its first
 * bytes decide the media type. Throws `not_found` with the message `missing` when there is no such file.
 */
export async function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  blobs: BlobStore,
  file: { ref: string; sha256: string; path: string } | undefined,
  missing: string,
): Promise<FastifyReply> {
  const head = file === undefined ? null : await blobs.read(file.ref, { start: 0, end: DECIDING_BYTES })
  if (file === undefined || head === null) throw new CofferdamError('not_found', missing)
  const source = sourceOf(blobs, file.ref, head.total)
  return sendBytes(request, reply, source, {
    contentType: mediaTypeOf(head.bytes, head.total),
    etag: file.sha256,
    disposition: attachment(file.path),
  })
}

/** Content-Disposition with the last name of `path` (RFC 6266, RFC 8187). */
function attachment(path: string): string {
  const name = path.split('/').at(-1) ?? 'artifact'
  const ascii = name.replaceAll(/[^A-Za-z0-9._-]/g, '_')
  const encoded = encodeURIComponent(name).replaceAll(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`
}

/**
 * Interprets a `Range` header (RFC 9110 §14) over `total` bytes. `part`: one `bytes` range, answered with
 * 206. `outside`: 416. `whole`: no header, or another unit, several ranges or bad syntax, which a server may
 * ignore by the RFC.
 */
export function selectRange(
  header: string | undefined,
  total: number,
): { kind: 'whole' } | { kind: 'part'; range: ByteRange } | { kind: 'outside' } {
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.replaceAll(' ', '') ?? '')
  const [, first = '', last = ''] = match ?? []
  if (first === '' && last === '') return { kind: 'whole' }
  if (first === '') {
    const length = Math.min(Number(last), total)
    return length === 0 ? { kind: 'outside' } : { kind: 'part', range: { start: total - length, end: total } }
  }
  const start = Number(first)
  const end = last === '' ? total : Math.min(Number(last) + 1, total)
  if (last !== '' && Number(last) < start) return { kind: 'whole' }
  return start >= total ? { kind: 'outside' } : { kind: 'part', range: { start, end } }
}
