/**
 * A bound on how much of something is held at once, shared so that no holder can take all of it. A holder
 * gets more only while all it would then have is at most what was free before: one alone gets half, two get a
 * third each, and whoever comes next always finds something (dynamic thresholds of Choudhury and Hahne, 1998,
 * with factor 1).
 */

/** What one request holds. */
export interface Hold {
  /** Holds `size` more; false, and nothing more held, when that would pass the holder's share. */
  grow(size: number): boolean
  /** Gives all of it back; may be repeated. */
  release(): void
}

export interface Shares {
  /** Holds `size` (default 1) for `holder`; null when that would pass its share. */
  take(holder: string, size?: number): Hold | null
  /** Held by everybody. */
  readonly used: number
}

/** Makes shares of `max` in all. Remembers only holders that hold something. */
export function createShares(max: number): Shares {
  let used = 0
  const usedBy = new Map<string, number>()

  const add = (holder: string, size: number): void => {
    used += size
    const left = (usedBy.get(holder) ?? 0) + size
    if (left === 0) usedBy.delete(holder)
    else usedBy.set(holder, left)
  }

  return {
    take(holder, size = 1) {
      let held = 0
      let isReleased = false
      const hold: Hold = {
        grow(more) {
          if (isReleased || (usedBy.get(holder) ?? 0) + more > max - used) return false
          add(holder, more)
          held += more
          return true
        },
        release() {
          if (!isReleased) add(holder, -held)
          isReleased = true
        },
      }
      return hold.grow(size) ? hold : null
    },
    get used() {
      return used
    },
  }
}
