/** Sends stored bytes with Range support, in pieces, so that memory does not grow with the size of an output. */
import { Readable } from 'node:stream'
import { CofferdamError, type BlobStore } from '@cofferdam/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { selectRange, type ByteRange } from './byte-range.ts'

/** 256 KiB: sixteen of the socket's usual buffers, and few enough reads for the 16 MiB bound of an output. */
const PIECE_BYTES = 256 * 1024

/** Bytes that can be read in parts. `end` of a range is exclusive; fewer bytes than asked means they are gone. */
export interface ByteSource {
  total: number
  read(range: ByteRange): Promise<Uint8Array>
}

/** Bytes in memory. */
export function bytesSource(bytes: Uint8Array): ByteSource {
  return { total: bytes.length, read: async ({ start, end }) => bytes.subarray(start, end) }
}

/** A blob; null when it is not there any more. */
export async function blobSource(blobs: BlobStore, ref: string): Promise<ByteSource | null> {
  const probe = await blobs.read(ref, { start: 0, end: 1 })
  if (probe === null) return null
  return {
    total: probe.total,
    read: async (range) => (await blobs.read(ref, range))?.bytes ?? new Uint8Array(),
  }
}

/** Answers 200, 206 or 304; throws `range_not_satisfiable` (416) with the total in Content-Range. */
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
    // Ended outputs never change, but who may see them does: the browser asks again each time.
    'cache-control': 'private, no-cache',
    ...(options.disposition === undefined ? {} : { 'content-disposition': options.disposition }),
  })
  if (request.headers['if-none-match'] === etag) return reply.code(304).send()
  // If-Range with another tag means: the part is of something else, send the whole (RFC 9110 §13.1.5).
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
  // fastify keeps the content-length of a stream for HEAD and sends nothing of it.
  const sent = request.method === 'HEAD' ? [] : pieces(source, range)
  return reply.send(Readable.from(sent, { objectMode: false, highWaterMark: PIECE_BYTES }))
}

async function* pieces(source: ByteSource, range: ByteRange): AsyncGenerator<Uint8Array> {
  for (let at = range.start; at < range.end;) {
    const piece = await source.read({ start: at, end: Math.min(at + PIECE_BYTES, range.end) })
    // Deleted while it was sent: a broken connection tells the client that the body is not whole.
    if (piece.length === 0) throw new Error('the blob ended before its size')
    at += piece.length
    yield piece
  }
}
