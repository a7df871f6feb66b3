/**
 * Decides by name and port, before anything is resolved, and narrows a request's network to its tenant's. A
 * template may have narrowed the tenant's before (effective-policy.ts of @cofferdam/admission).
 */
import { WEB_PORTS, type Network } from '@cofferdam/contract'
import { parseAuthority, type Target } from './host.ts'

interface Entry {
  /** The name without a leading `*.`, or an address in its canonical spelling. */
  host: string
  wildcard: boolean
  ports: readonly number[]
}

function parseEntry(text: string): Entry | null {
  const wildcard = text.startsWith('*.')
  const authority = wildcard ? text.slice(2) : text
  // 65536 is not a port, so it shows that no port was written.
  const target = parseAuthority(authority, 65_536)
  if (target === null || (wildcard && target.host.kind === 'address')) return null
  return {
    host: target.host.text,
    wildcard,
    ports: target.port === 65_536 ? WEB_PORTS : [target.port],
  }
}

const matchesHost = (entry: Entry, host: string): boolean =>
  entry.wildcard ? host.endsWith(`.${entry.host}`) : host === entry.host

/** Null if the network allows the name and port. Otherwise a sentence with the rule that refuses them. */
export function refusedByNetwork(
  network: Network,
  ports: readonly number[],
  { host, port }: Target,
): string | null {
  if (network === 'none') return 'this execution has no network'
  if (network === 'public')
    return ports.includes(port) ? null : `port ${port} is not among the allowed ports (${ports.join(', ')})`
  const entries = network.allow.flatMap((text) => parseEntry(text) ?? [])
  const ofHost = entries.filter((entry) => matchesHost(entry, host.text))
  if (ofHost.length === 0) return `the host is not on the allow-list of this execution`
  const allowed = [...new Set(ofHost.flatMap((entry) => entry.ports))]
  return allowed.includes(port)
    ? null
    : `the allow-list has this host with port ${allowed.join(', ')}, not ${port}`
}

/** True when `ceiling` allows every host and port of `entry`. */
function isCovered(entry: Entry, ceiling: readonly Entry[]): boolean {
  const hosts = ceiling.filter((above) =>
    entry.wildcard
      ? above.wildcard && (entry.host === above.host || matchesHost(above, entry.host))
      : matchesHost(above, entry.host),
  )
  return entry.ports.every((port) => hosts.some((above) => above.ports.includes(port)))
}

export type Narrowed =
  | { ok: true; network: Network }
  /** `entry` exceeds the ceiling: an entry of the list, or `public`. */
  | { ok: false; entry: string; reason: string }

/**
 * The network of an execution: what it asks for, within what its tenant may reach. `public` asks for
 * everything that the tenant may reach, so under an allow-list it becomes that list. Each entry of a
 * requested list must be covered, or the request is refused and the entry named, because leaving it out would
 * only make the program fail later. Under ceiling `none` everything but `none` is refused.
 */
export function narrowest(requested: Network, ceiling: Network): Narrowed {
  if (requested === 'none') return { ok: true, network: 'none' }
  const first = requested === 'public' ? 'public' : (requested.allow[0] ?? '')
  if (ceiling === 'none') return { ok: false, entry: first, reason: 'the tenant may not use the network' }
  if (requested === 'public') return { ok: true, network: ceiling }
  const above = ceiling === 'public' ? null : ceiling.allow.flatMap((text) => parseEntry(text) ?? [])
  for (const text of requested.allow) {
    const entry = parseEntry(text)
    if (entry === null)
      return { ok: false, entry: text, reason: `"${text}" is not a host, *.host or host:port` }
    if (above !== null && !isCovered(entry, above))
      return { ok: false, entry: text, reason: `"${text}" is not within what the tenant may reach` }
  }
  return { ok: true, network: requested }
}
