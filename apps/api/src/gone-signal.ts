/** One signal for "nobody waits for this answer any more": the client went away, or the server drains. */
import type { FastifyReply } from 'fastify'

/** Dispose it when the answer is sent. Aborting cancels nothing but the waiting. */
export function goneSignal(reply: FastifyReply, draining: AbortSignal): Disposable & { signal: AbortSignal } {
  const gone = new AbortController()
  const onClose = (): void => gone.abort()
  reply.raw.on('close', onClose)
  if (reply.raw.destroyed) gone.abort()
  return {
    signal: AbortSignal.any([gone.signal, draining]),
    [Symbol.dispose]() {
      reply.raw.off('close', onClose)
    },
  }
}
