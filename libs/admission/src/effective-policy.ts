/**
 * The policy under which an execution runs: for each setting, the stricter of the tenant's and the
 * template's. A template can only tighten, so its author cannot widen what an operator decided.
 */
import { strongest, WEB_PORTS, type Network, type Template, type TenantPolicy } from '@cofferdam/contract'

/** The tenant's policy tightened by the template's settings. Without a template (null) it is unchanged. */
export function effectivePolicy(tenant: TenantPolicy, sandbox: Template['sandbox']): TenantPolicy {
  if (sandbox === null) return tenant
  return {
    ...tenant,
    network: narrowerNetwork(tenant.network, sandbox.network ?? 'public'),
    min_isolation: strongest(tenant.min_isolation, sandbox.min_isolation ?? tenant.min_isolation),
    retention_days: Math.min(tenant.retention_days, sandbox.retention_days ?? tenant.retention_days),
    encrypt_outputs: tenant.encrypt_outputs || sandbox.encrypt_outputs === true,
  }
}

/**
 * What both networks allow. Two allow-lists are compared entry by entry. A host stays if the other list has
 * it, or a wildcard that covers it, for the ports that both name. An entry without a port means the ports of
 * the web, so it shares nothing with an entry of port 8443. If nothing is common, there is no network.
 * `narrowest` of @cofferdam/egress narrows a request to this.
 */
export function narrowerNetwork(a: Network, b: Network): Network {
  if (a === 'none' || b === 'none') return 'none'
  if (a === 'public') return b
  if (b === 'public') return a
  const both = new Set<string>()
  for (const one of a.allow)
    for (const other of b.allow) {
      const met = meet(partsOf(one), partsOf(other))
      if (met !== null) both.add(met)
    }
  return both.size === 0 ? 'none' : { allow: [...both].slice(0, MAX_ENTRIES) }
}

/** The bound for an allow-list (contract, networkSchema). Leaving entries out only narrows. */
const MAX_ENTRIES = 64

interface Entry {
  host: string
  port: string | null
}

/** Host names are case-insensitive. */
function partsOf(entry: string): Entry {
  const [host = '', port] = entry.toLowerCase().split(':')
  return { host, port: port ?? null }
}

/** The entry that covers exactly what `a` and `b` both cover. Null if they have nothing in common. */
function meet(a: Entry, b: Entry): string | null {
  const host = covers(a.host, b.host) ? b.host : covers(b.host, a.host) ? a.host : null
  // A wildcard over an address allows nothing.
  if (host === null || (host.startsWith('*.') && isAddress(host))) return null
  const port = a.port ?? b.port
  if (port === null) return host
  return hasPort(a, Number(port)) && hasPort(b, Number(port)) ? `${host}:${port}` : null
}

const hasPort = (entry: Entry, port: number): boolean =>
  entry.port === null ? WEB_PORTS.includes(port) : Number(entry.port) === port

/** `*.example.com` covers every name below example.com and every narrower wildcard, but not example.com. */
const covers = (wide: string, narrow: string): boolean =>
  wide === narrow || (wide.startsWith('*.') && narrow.endsWith(wide.slice(1)) && !isAddress(narrow))

/** A host whose last label is a number is an IPv4 address (WHATWG URL), and no wildcard covers one. */
const isAddress = (host: string): boolean => /(^|\.)(\d+|0x[\da-f]*)$/.test(host)
