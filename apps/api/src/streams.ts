/**
 * Long answers that bypass fastify and write to the raw response: server-sent events and newline-delimited
 * JSON. Both obey backpressure, so memory stays at one event or one page however slowly the client reads.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'

/**
 * A signal that aborts when nobody waits for the answer any more: the client disconnected or the server
 * drains. Dispose it when the answer is sent. It ends only the wait and cancels no execution.
 */
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

/** Takes the response away from fastify. Returns the headers that hooks have set, for the raw response. */
export function takeOver(reply: FastifyReply): Record<string, string> {
  reply.hijack()
  return Object.fromEntries(Object.entries(reply.getHeaders()).map(([name, value]) => [name, String(value)]))
}

function begin(raw: ServerResponse, headers: Record<string, string>, contentType: string): void {
  raw.on('error', () => raw.destroy())
  raw.writeHead(200, {
    ...headers,
    'content-type': `${contentType}; charset=utf-8`,
    'cache-control': 'no-store, no-transform',
    // Otherwise nginx buffers the response, a large one on its disk.
    'x-accel-buffering': 'no',
  })
  raw.flushHeaders()
}

/** Writes `text`. Resolves when the socket accepts more, or when `signal` aborts. */
async function write(raw: ServerResponse, text: string, signal: AbortSignal): Promise<void> {
  if (raw.write(text)) return
  await once(raw, 'drain', { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
}

export interface EventStream extends Disposable {
  /** Writes one event. Resolves when the socket accepts more, or when the signal aborts. */
  send(event: { id: string; type: string; data: unknown }): Promise<void>
}

/**
 * Starts a stream of server-sent events (HTML Standard §9.2) with a comment as heartbeat. Disposing ends
 * it. Nothing is written after `signal` aborts. `headers` are added to those of an event stream.
 */
export function openEventStream(
  raw: ServerResponse,
  {
    headers,
    heartbeatMs,
    signal,
  }: { headers: Record<string, string>; heartbeatMs: number; signal: AbortSignal },
): EventStream {
  begin(raw, headers, 'text/event-stream')
  // Writes only when the socket has accepted everything, so that no heartbeats queue up for a stalled client.
  const heartbeat = setInterval(() => {
    if (!raw.writableNeedDrain && !raw.writableEnded) raw.write(': \n\n')
  }, heartbeatMs)
  heartbeat.unref()
  return {
    async send({ id, type, data }) {
      if (signal.aborted || raw.writableEnded) return
      // JSON.stringify escapes line breaks, so `data` is one line.
      await write(raw, `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`, signal)
    },
    [Symbol.dispose]() {
      clearInterval(heartbeat)
      if (!raw.writableEnded) raw.end()
    },
  }
}

/**
 * Sends every page as lines of JSON and ends the response. When `pages` fails or `signal` aborts, the
 * connection is cut before the last HTTP chunk, so that no client takes a part for the whole.
 */
export async function sendLines(
  raw: ServerResponse,
  pages: AsyncIterable<readonly unknown[]>,
  { headers, signal }: { headers: Record<string, string>; signal: AbortSignal },
): Promise<void> {
  begin(raw, headers, 'application/x-ndjson')
  try {
    for await (const page of pages) {
      if (signal.aborted) break
      // JSON.stringify escapes line breaks, so a row is one line.
      if (page.length > 0) await write(raw, page.map((row) => `${JSON.stringify(row)}\n`).join(''), signal)
    }
    if (signal.aborted) raw.destroy()
    else raw.end()
  } catch (error) {
    raw.destroy()
    throw error
  }
}
