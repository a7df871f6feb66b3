/**
 * Server-sent events (HTML Standard §9.2) over one raw response: `id`, `event` and `data` lines, comments as
 * heartbeat, backpressure, and silence once `signal` aborts (client gone, or drain).
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'

export interface EventStream extends Disposable {
  /** Writes one event; resolves when the socket takes more, or when the signal aborts. */
  send(event: { id: string; type: string; data: unknown }): Promise<void>
}

/** Starts the response and its heartbeat; disposing ends it. `headers` are added to those of an event stream. */
export function openEventStream(
  raw: ServerResponse,
  options: { headers: Record<string, string>; heartbeatMs: number; signal: AbortSignal },
): EventStream {
  const { signal } = options
  raw.on('error', () => raw.destroy())
  raw.writeHead(200, {
    ...options.headers,
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store, no-transform',
    // nginx buffers proxied responses otherwise.
    'x-accel-buffering': 'no',
  })
  raw.flushHeaders()
  // Only when the socket has taken everything before: a stalled reader gathers no heartbeats.
  const heartbeat = setInterval(() => {
    if (!raw.writableNeedDrain && !raw.writableEnded) raw.write(': \n\n')
  }, options.heartbeatMs)
  heartbeat.unref()

  return {
    async send({ id, type, data }) {
      if (signal.aborted || raw.writableEnded) return
      // JSON.stringify escapes line breaks, so `data` is one line.
      const took = raw.write(`id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`)
      if (took) return
      await once(raw, 'drain', { signal }).catch((error: unknown) => {
        if (!signal.aborted) throw error
      })
    },
    [Symbol.dispose]() {
      clearInterval(heartbeat)
      if (!raw.writableEnded) raw.end()
    },
  }
}
