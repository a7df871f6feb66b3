/**
 * Bounds how much of something is in use at once, so that no holder can use all of it. A holder gets more
 * only while its total stays at or below what is free. One holder alone therefore gets half, two get a
 * third each, and every newcomer finds something free (dynamic thresholds of Choudhury and Hahne, 1998,
 * with factor 1).
 */
import { CofferdamError } from '@cofferdam/contract'

/** What one request holds. Disposing it releases all of it and may be repeated. */
export interface Hold extends Disposable {
  /** Holds `size` more. Returns false and changes nothing if that would exceed the holder's share. */
  grow(size: number): boolean
}

export interface Shares {
  /** Holds `size` (default 1) for `holder`. Null when that would exceed its share. */
  take(holder: string, size?: number): Hold | null
  /** Like `take`, but throws `busy` instead of returning null. */
  require(holder: string): Hold
  /** What all holders use together. */
  readonly used: number
}

/** Creates shares of `max` in total. `what` names them in the error, such as `event streams`. */
export function createShares(max: number, what = 'requests'): Shares {
  let used = 0
  const usedBy = new Map<string, number>()

  const add = (holder: string, size: number): void => {
    used += size
    const left = (usedBy.get(holder) ?? 0) + size
    if (left === 0) usedBy.delete(holder)
    else usedBy.set(holder, left)
  }

  const take = (holder: string, size = 1): Hold | null => {
    let held = 0
    let isReleased = false
    const hold: Hold = {
      grow(more) {
        if (isReleased || (usedBy.get(holder) ?? 0) + more > max - used) return false
        add(holder, more)
        held += more
        return true
      },
      [Symbol.dispose]() {
        if (!isReleased) add(holder, -held)
        isReleased = true
      },
    }
    return hold.grow(size) ? hold : null
  }

  return {
    take,
    require(holder) {
      const hold = take(holder)
      if (hold === null) throw noCapacity(what)
      return hold
    },
    get used() {
      return used
    },
  }
}

/** The error `busy`: this process, or the caller's share of it, has no capacity for more of `what`. */
export const noCapacity = (what: string): CofferdamError =>
  new CofferdamError(
    'busy',
    `This process has no capacity for more ${what}, or the caller has used up its share of it.`,
  )
