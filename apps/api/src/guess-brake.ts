/**
 * Slows down who guesses keys: a token bucket per address, paid for each look at the store that finds no key.
 * Keys that this process has seen work never pay, so that guesses from behind a shared address lock nobody
 * out.
 */

/** Unknown keys that an address may present at once. */
const BURST = 20
/**
 * What comes back. 160 random bits are not guessed at any rate: this is for the store, which answers each
 * guess.
 */
const PER_SECOND = 1
/** Addresses remembered, about 1 MB; who was quiet longest is forgotten first. */
const MAX_ADDRESSES = 10_000

export interface GuessBrake {
  /**
   * Takes a guess of `address`. 0 when it may be looked up now, else the milliseconds until then, and nothing
   * taken.
   */
  take(address: string): number
  /** Gives one back: it was no guess. */
  giveBack(address: string): void
}

/** Makes the brake. `now` in milliseconds. */
export function createGuessBrake(now: () => number): GuessBrake {
  const spent = new Map<string, { guesses: number; atMs: number }>()

  /** What `address` has spent that has not come back yet. */
  const guessesOf = (address: string): number => {
    const known = spent.get(address)
    return known === undefined ? 0 : Math.max(0, known.guesses - ((now() - known.atMs) / 1000) * PER_SECOND)
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
      if (guesses + 1 > BURST) return Math.ceil(((guesses + 1 - BURST) / PER_SECOND) * 1000)
      write(address, guesses + 1)
      return 0
    },
    giveBack(address) {
      write(address, guessesOf(address) - 1)
    },
  }
}
