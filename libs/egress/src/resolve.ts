/** Resolves names to addresses, on the worker. */
import { Resolver } from 'node:dns/promises'

/** All addresses of `name` (lower case, no trailing dot). Empty or a rejection when there is none. */
export type Resolve = (name: string, signal: AbortSignal) => Promise<readonly string[]>

/** Long enough to repeat once after a lost UDP packet. The dial's deadline bounds everything. */
const TRY_MS = 2500

/**
 * Asks the machine's name servers directly (c-ares). `dns.lookup` would hold one of libuv's four threads
 * while a slow server does not answer, so a program could stop the worker's file access and cryptography.
 * c-ares also appends no search domains, so a short name cannot reach a host of the operator's network. It
 * does not read /etc/hosts.
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
