/** Which callers count as one while nothing but their address is known. */
import { isIPv6 } from 'node:net'

/**
 * The IPv4 address, or the /64 of an IPv6 address: the smallest network that one customer gets, with 2^64
 * addresses to choose from. An IPv4 address written as IPv6 (`::ffff:…`) is itself. Anything else stays as it
 * is.
 */
export function addressGroup(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [bare = ''] = address.split('%', 1)
  if (!isIPv6(bare)) return address
  const [front = '', back] = bare.split('::', 2)
  const head = front === '' ? [] : front.split(':')
  const tail = back === undefined || back === '' ? [] : back.split(':')
  const zeros = Array.from({ length: Math.max(0, 8 - head.length - tail.length) }, () => '0')
  const groups = back === undefined ? head : [...head, ...zeros, ...tail]
  return `${groups
    .slice(0, 4)
    .map((group) => group.toLowerCase())
    .join(':')}::/64`
}
