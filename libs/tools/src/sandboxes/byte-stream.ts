/** Streams of bytes, for interfaces that want them. */
import { CofferdamError } from '@cofferdam/client'

/** The largest file that the API of sessions takes (BOUNDS.fileBytes). */
export const FILE_BYTES = 8 * 1024 * 1024

export const streamOf = (bytes: Uint8Array): ReadableStream<Uint8Array> =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes)
      controller.close()
    },
  })

/**
 * Reads a stream to its end. Throws `payload_too_large` as soon as the stream is larger than a file may be,
 * and the signal's reason when it aborts. In both cases the stream is cancelled.
 */
export async function bytesOfStream(
  stream: ReadableStream<Uint8Array>,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const reader = stream.getReader()
  const onAbort = (): void => void reader.cancel(signal?.reason).catch(() => undefined)
  signal?.addEventListener('abort', onAbort, { once: true })
  const parts: Uint8Array[] = []
  let length = 0
  try {
    for (;;) {
      signal?.throwIfAborted()
      const { done, value } = await reader.read()
      if (done) break
      parts.push(value)
      length += value.byteLength
      if (length > FILE_BYTES)
        throw new CofferdamError('payload_too_large', `A file has at most ${FILE_BYTES} bytes.`)
    }
    signal?.throwIfAborted()
  } catch (error) {
    await reader.cancel(error).catch(() => undefined)
    throw error
  } finally {
    signal?.removeEventListener('abort', onAbort)
  }
  const whole = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.byteLength
  }
  return whole
}
