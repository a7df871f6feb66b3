/** Bounds the bytes of request bodies in memory: each request reserves what it announces before its body is read. */
import type { IncomingHttpHeaders } from 'node:http'
import { BOUNDS, CofferdamError } from '@cofferdam/contract'
import type { FastifyInstance } from 'fastify'
import type { Slots } from './slots.ts'

/** Refuses with `busy` what would pass `budget` (bytes). A body of unknown length reserves the largest allowed. */
export function limitBodies(app: FastifyInstance, budget: Slots): void {
  app.addHook('onRequest', async (request, reply) => {
    const bytes = announcedBytes(request.headers)
    if (bytes === 0) return
    const release = budget.take(bytes)
    if (release === null) {
      throw new CofferdamError('busy', 'This process holds as many request bodies as it may.')
    }
    // `close` comes in every case: answered, aborted, or destroyed.
    reply.raw.once('close', release)
  })
}

function announcedBytes(headers: IncomingHttpHeaders): number {
  if (headers['transfer-encoding'] !== undefined) return BOUNDS.requestBodyBytes
  // More than the limit is answered 413 without being read.
  return Math.min(Number(headers['content-length'] ?? 0), BOUNDS.requestBodyBytes)
}
