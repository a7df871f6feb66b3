/** Streams of the sealed format, for bytes that are kept beside the store, such as paused sessions. */
import { Duplex } from 'node:stream'
import type { OutputKeys } from './output-keys.ts'
import { createSealingWriter } from './blobs/sealed-blobs.ts'
import {
  createOpener,
  HEADER_BYTES,
  STORED_CHUNK_BYTES,
  type Opener,
  type SealedLocation,
} from './sealed-format.ts'

export interface SealedStreams {
  /** Encrypts what is written to it. */
  seal(where: SealedLocation): Duplex
  /** Decrypts what is written to it. Fails with `stored_data_damaged` if bytes were altered, moved or cut. */
  open(where: SealedLocation): Duplex
}

/** Null if there is no key that encrypts. */
export function createSealedStreams(keys: OutputKeys): SealedStreams | null {
  const { current } = keys
  if (current === null) return null
  return {
    seal: (where) =>
      Duplex.from(async function* (text: AsyncIterable<Uint8Array>) {
        const sealed: Uint8Array[] = []
        const writer = createSealingWriter(current, where, async (bytes) => void sealed.push(bytes))
        for await (const chunk of text) {
          await writer.write(chunk)
          yield* sealed.splice(0)
        }
        await writer.end()
        yield* sealed.splice(0)
      }),
    open: (where) => Duplex.from((stored: AsyncIterable<Uint8Array>) => opened(keys, where, stored)),
  }
}

async function* opened(
  keys: OutputKeys,
  where: SealedLocation,
  stored: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  let opener: Opener | null = null
  let unread = Buffer.alloc(0)
  let index = 0

  /** What can be decrypted now. A chunk may be the last one until a byte follows it. */
  function* decrypted(isEnd: boolean): Generator<Buffer> {
    if (opener === null && (isEnd || unread.length >= HEADER_BYTES)) {
      opener = createOpener(keys, unread.subarray(0, HEADER_BYTES), where)
      unread = unread.subarray(HEADER_BYTES)
    }
    while (opener !== null && (isEnd || unread.length > STORED_CHUNK_BYTES)) {
      const chunk = unread.subarray(0, STORED_CHUNK_BYTES)
      unread = unread.subarray(STORED_CHUNK_BYTES)
      const isLast = isEnd && unread.length === 0
      yield opener.open(chunk, index, isLast)
      index += 1
      if (isLast) return
    }
  }

  for await (const bytes of stored) {
    unread = Buffer.concat([unread, bytes])
    yield* decrypted(false)
  }
  yield* decrypted(true)
}
