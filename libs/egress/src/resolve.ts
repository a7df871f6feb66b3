/** Name → addresses, on the worker. */
import { Resolver } from 'node:dns/promises'

/** All addresses of `name` (lower case, no trailing dot); an empty list or a rejection means that there is none. */
export type Resolve = (name: string, signal: AbortSignal) => Promise<readonly string[]>

/** A lost UDP packet is asked for once more; the dialer's deadline ends it all. */
const TRY_MS = 2500

/**
 * Asks the machine's name servers directly (c-ares), not `dns.lookup`: getaddrinfo holds one of libuv's four threads for as
 * long as a slow server likes, and a program that names such servers would stop file access and cryptography of the whole
 * worker. It also appends no search domains, so a name never means one of the operator's network. /etc/hosts is not read.
 */
export function createResolve(servers?: readonly string[]): Resolve {
  return async (name, signal) => {
    const resolver = new Resolver({ timeout: TRY_MS, tries: 2, maxTimeout: TRY_MS })
    if (servers !== undefined) resolver.setServers(servers)
    const cancel = (): void => resolver.cancel()
    signal.addEventListener('abort', cancel, { once: true })
    try {
      signal.throwIfAborted()
      const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
      return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    } finally {
      signal.removeEventListener('abort', cancel)
    }
  }
}
