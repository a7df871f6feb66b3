/** A bound on how many of something are open at once. */

export interface Slots {
  /** Takes `size` (default 1) and returns what gives it back once; null when that would pass the bound. */
  take(size?: number): (() => void) | null
  readonly used: number
}

/** Makes slots for `max` in all. */
export function createSlots(max: number): Slots {
  let used = 0
  return {
    take(size = 1) {
      if (used + size > max) return null
      used += size
      let held = true
      return () => {
        if (held) used -= size
        held = false
      }
    },
    get used() {
      return used
    },
  }
}
