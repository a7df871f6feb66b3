/** Slows down addresses that guess keys, codes or sign-ins, in bounded memory. */
import { isIPv6 } from 'node:net'

/**
 * The unknown keys that an address may present in one burst, and how many it gets back per second. The limit
 * protects the store from lookups, not the keys: 160 random bits cannot be guessed.
 */
const UNKNOWN_KEYS: GuessRate = { burst: 20, perSecond: 1 }
/** Addresses in memory, about 1 MB. The one that was quiet for the longest time is evicted first. */
const MAX_ADDRESSES = 10_000

/** How many guesses an address has, and how many it gets back each second. */
export interface GuessRate {
  burst: number
  perSecond: number
}

/**
 * Slows down callers that guess keys: a token bucket per address. Keys that have worked in this process
 * cost nothing, so guesses from a shared address lock nobody out.
 */
export interface GuessBrake {
  /** Takes one guess of `address`. Returns 0 when the key may be looked up, else the wait in ms. */
  take(address: string): number
  /** Returns one guess, because the key was valid or the lookup failed. */
  giveBack(address: string): void
}

/** Creates the brake. `now` is in milliseconds. */
export function createGuessBrake(
  now: () => number,
  { burst, perSecond }: GuessRate = UNKNOWN_KEYS,
): GuessBrake {
  const spent = new Map<string, { guesses: number; atMs: number }>()

  /** The guesses that `address` has used and not got back yet. */
  const guessesOf = (address: string): number => {
    const known = spent.get(address)
    return known === undefined ? 0 : Math.max(0, known.guesses - ((now() - known.atMs) / 1000) * perSecond)
  }

  const write = (address: string, guesses: number): void => {
    spent.delete(address)
    if (guesses > 0) spent.set(address, { guesses, atMs: now() })
    const [oldest] = spent.keys()
    if (spent.size > MAX_ADDRESSES && oldest !== undefined) spent.delete(oldest)
  }

  return {
    take(address) {
      const guesses = guessesOf(address)
      if (guesses + 1 > burst) return Math.ceil(((guesses + 1 - burst) / perSecond) * 1000)
      write(address, guesses + 1)
      return 0
    },
    giveBack(address) {
      write(address, guessesOf(address) - 1)
    },
  }
}

/**
 * The group that an unknown caller's address counts in: the IPv4 address, or the /64 of an IPv6 address. A
 * /64 is the smallest network that one customer gets, with 2^64 addresses to choose from. An IPv4 address
 * written as IPv6 (`::ffff:…`) counts as IPv4. Anything else is returned unchanged.
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
