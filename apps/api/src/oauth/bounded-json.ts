/** Reads a small JSON document of another server, which may hang, redirect or never stop sending. */

/** Largest key sets in practice have a few dozen keys of 2 KiB. */
const MAX_BYTES = 256 * 1024

const TIMEOUT_MS = 5000

/** Returns the document at `url`. Rejects for redirects, any status but 200, more than 256 KiB, and after 5 s. */
export async function fetchJson(url: string): Promise<unknown> {
  const response = await fetch(url, {
    headers: { accept: 'application/json' },
    // A redirect would lead to a place that nobody configured.
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(`${url} answered ${response.status}`)
  }
  const chunks: Uint8Array[] = []
  let size = 0
  // Counts what decompression yields. Leaving the loop closes the connection.
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > MAX_BYTES) throw new Error(`${url} sent more than ${MAX_BYTES} bytes`)
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString())
}
