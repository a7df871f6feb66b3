/** Finds a free port, for servers that need to know their port before they start. */
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A port that was free a moment ago. The port 10,000 above it, for the bus of a Redis cluster, is free too.
 * Both are below the ports of outgoing connections on Linux (32768 and up), so no connection takes them.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 2700)
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    server.listen(port, '127.0.0.1')
    await Promise.race([once(server, 'listening'), once(server, 'error').then(([e]) => Promise.reject(e))])
    return true
  } catch {
    return false
  } finally {
    server.close()
  }
}
