/**
 * Decides which addresses are the public Internet: global unicast and nothing else. The rules list what is
 * allowed, so an unknown form of address is refused.
 */
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import { parsePrivateRange, type PrivateRange } from './config.ts'
import type { Address } from './host.ts'

/** Today's global unicast space (RFC 4291, IANA). */
const GLOBAL_V6 = ipaddr.IPv6.parseCIDR('2000::/3')
/**
 * The well-known NAT64 prefix (RFC 6052). The IPv4 address inside it is judged. NAT64 addresses with the
 * local-use prefix are refused.
 */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
/** Public by range, but served only to the cloud's own machines: Azure's WireServer. */
const HOST_SERVICES = new Map([['168.63.129.16', 'the metadata service of a cloud']])

const WORDS: Record<string, string> = {
  private: 'a private address',
  uniqueLocal: 'a private address',
  loopback: 'a loopback address',
  linkLocal: 'a link-local address',
  carrierGradeNat: 'an address of a carrier’s NAT',
  multicast: 'a multicast address',
  broadcast: 'a broadcast address',
  unspecified: 'the unspecified address',
}

export interface AddressRules {
  privateAllow: readonly PrivateRange[]
  /** The worker's own addresses, including public ones. Called for every connection, as they change. */
  ownAddresses(): readonly string[]
}

/** `ownAddresses` defaults to the addresses of this machine's interfaces. */
export function addressRules(
  privateAllow: readonly string[],
  ownAddresses: () => readonly string[] = interfaceAddresses,
): AddressRules {
  return { privateAllow: privateAllow.flatMap((text) => parsePrivateRange(text) ?? []), ownAddresses }
}

function interfaceAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address))
}

/** Null when `address` may be connected to. Otherwise a description of what it is. */
export function judgeAddress(address: Address, port: number, rules: AddressRules): string | null {
  const plain = unwrapped(address)
  if (rules.privateAllow.some((allowed) => inRange(plain, port, allowed))) return null
  const hostService = HOST_SERVICES.get(plain.toString())
  if (hostService !== undefined) return hostService
  const range = plain.range()
  const isGlobal = range === 'unicast' && (plain instanceof ipaddr.IPv4 || plain.match(GLOBAL_V6))
  if (!isGlobal) return WORDS[range] ?? `not a public address (${range})`
  const isOwn = rules.ownAddresses().some((own) => {
    const text = own.replace(/%.*$/, '')
    return ipaddr.isValid(text) && unwrapped(ipaddr.parse(text)).toString() === plain.toString()
  })
  return isOwn ? 'an address of the worker itself' : null
}

/** The IPv4 address inside an IPv4-mapped or NAT64 address. Other addresses are unchanged. */
function unwrapped(address: Address): Address {
  if (address instanceof ipaddr.IPv4) return address
  const isWrapped = address.isIPv4MappedAddress() || address.match(NAT64)
  return isWrapped ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address
}

function inRange(address: Address, port: number, { range: [base, bits], port: only }: PrivateRange): boolean {
  return address.kind() === base.kind() && (only === null || only === port) && address.match(base, bits)
}
