/**
 * Stores the spans of recently ended executions in Redis, so that any API can show them without a collector.
 * Every FLUSH_MS it stores at most BATCH traces, failures first, for KEPT_MS. It drops the rest.
 */
import type { Redis } from 'ioredis'
import { keysOf } from './cell.ts'
import { run, SCRIPTS } from './scripts.ts'

/** Short enough that a person who asks right after the end finds the trace. */
const FLUSH_MS = 250
/** 64 traces a second per process. Below that rate all are stored, above it failures and a sample. */
const BATCH = 16
/** An ordinary execution has two parts (request, attempt) of 3 KiB together: 6 MiB of Redis. */
const MAX_KEPT = 2000
const MAX_BYTES = 16 * 1024
/** Parts kept of an execution that is taken many times. The last parts tell how it ended. */
const MAX_PARTS = 8
/** As long as the queue keeps an ended execution. */
const KEPT_MS = 3_600_000

/** One part of an execution's trace, a request or an attempt. `read` is called only for stored traces. */
export interface OfferedTrace {
  executionId: string
  failed: boolean
  read(): readonly object[]
}

export interface TraceShelf extends AsyncDisposable {
  offer(trace: OfferedTrace): void
}

/** Creates the trace store of one process. */
export function createTraceShelf(deps: {
  /** Connection of role `producer`: fails fast. */
  redis: Redis
  onError(error: unknown): void
}): TraceShelf {
  let waiting: OfferedTrace[] = []
  let flushed: Promise<void> = Promise.resolve()
  const timer = setInterval(() => {
    if (waiting.length > 0) flushed = flush()
  }, FLUSH_MS)
  timer.unref()

  async function flush(): Promise<void> {
    const batch = waiting
    waiting = []
    const texts = batch.map((trace) => [trace.executionId, textOf(trace)] as const)
    await Promise.all(
      texts.map(async ([id, text]) => {
        if (text !== null)
          await run(deps.redis, SCRIPTS.shelve, keysOf(deps.redis).window, [
            id,
            text,
            MAX_PARTS,
            MAX_KEPT,
            KEPT_MS,
          ])
      }),
    ).catch((error: unknown) => deps.onError(error))
  }

  return {
    offer(trace) {
      if (waiting.length < BATCH) return void waiting.push(trace)
      if (!trace.failed) return
      const replaced = waiting.findIndex((other) => !other.failed)
      if (replaced !== -1) waiting[replaced] = trace
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await flushed
      await flush()
    },
  }
}

/** Returns null for a trace that is too large to keep. */
function textOf(trace: OfferedTrace): string | null {
  const text = JSON.stringify(trace.read())
  return Buffer.byteLength(text) <= MAX_BYTES ? text : null
}

/**
 * The stored spans of an execution, unordered and unchecked. Empty when none were stored, or when they have
 * expired.
 */
export async function readShelvedTrace(redis: Redis, executionId: string): Promise<unknown[]> {
  const { parts: _count, ...parts } = await redis.hgetall(keysOf(redis).trace + executionId)
  return Object.values(parts).flatMap((part) => JSON.parse(part) as unknown[])
}
