/**
 * What an attempt printed as far as its worker streamed it live, redacted: all that is left of one whose
 * worker died.
 */
import type { ExecutionId } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { storedEvent } from './event-tails.ts'
import { KEYS } from './keys.ts'

const PAGE = 200

export interface Streamed {
  stdout: string
  stderr: string
  /** False where the live stream, which is bounded (stream-room.ts), no longer has its beginning. */
  isWhole: boolean
}

/** Reads the output behind the attempt's `started`. Throws what Redis throws. */
export async function readStreamed(redis: Redis, id: ExecutionId, attempt: number): Promise<Streamed> {
  const found: Streamed = { stdout: '', stderr: '', isWhole: false }
  for (let cursor = '-'; ;) {
    const page = await redis.xrange(KEYS.events + id, cursor, '+', 'COUNT', PAGE)
    for (const entry of page) {
      const { id: at, event } = storedEvent(entry)
      cursor = `(${at}`
      if (event.type === 'started')
        Object.assign(found, { stdout: '', stderr: '', isWhole: event.attempt === attempt })
      if (event.type === 'output') found[event.stream] += event.text
    }
    if (page.length < PAGE) return found
  }
}
