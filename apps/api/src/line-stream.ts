/**
 * Newline-delimited JSON over one raw response: a page of rows at a time, the next one asked for when the socket took
 * the last. Memory is one page, whatever is exported. A stream that ends whole ends with the last chunk of HTTP; one
 * that broke off is cut, so that no reader takes a part for the whole.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'

/** Writes every page as lines and ends the response; cuts it when `pages` fails, and stops when `signal` aborts. */
export async function sendLines(
  raw: ServerResponse,
  pages: AsyncIterable<readonly unknown[]>,
  { headers, signal }: { headers: Record<string, string>; signal: AbortSignal },
): Promise<void> {
  raw.on('error', () => raw.destroy())
  raw.writeHead(200, {
    ...headers,
    'content-type': 'application/x-ndjson; charset=utf-8',
    'cache-control': 'no-store, no-transform',
    // nginx would write a large answer to its disk first.
    'x-accel-buffering': 'no',
  })
  raw.flushHeaders()
  try {
    for await (const page of pages) {
      if (signal.aborted) break
      // JSON.stringify escapes line breaks, so a row is one line.
      const took = page.length === 0 || raw.write(page.map((row) => `${JSON.stringify(row)}\n`).join(''))
      if (!took) await once(raw, 'drain', { signal }).catch(() => undefined)
    }
    if (signal.aborted) raw.destroy()
    else raw.end()
  } catch (error) {
    raw.destroy()
    throw error
  }
}
