/** The waiting slots of one kind, oldest first, each with its share of the memory budget. */
import type { Slot } from './slot.ts'
import type { DropReason } from './warm-deps.ts'

export interface IdleSlots<S extends Slot> {
  readonly count: number
  add(slot: S, memory: Disposable): void
  /** Gives the oldest living slot to the caller; null if there is none. */
  take(): S | null
  /** Discards the oldest `count`. */
  drop(count: number, why: DropReason): void
  /** Discards those that have waited longer than `ms`. */
  dropOlder(ms: number): void
}

/** `discard` destroys a slot, and releases its memory when the sandbox is gone. */
export function createIdleSlots<S extends Slot>(
  discard: (slot: S, memory: Disposable, why: DropReason) => void,
): IdleSlots<S> {
  const idle: { slot: S; sinceMs: number; memory: Disposable }[] = []

  function drop(count: number, why: DropReason): void {
    for (const { slot, memory } of idle.splice(0, count)) discard(slot, memory, why)
  }

  return {
    get count() {
      return idle.length
    },
    add(slot, memory) {
      const entry = { slot, sinceMs: Date.now(), memory }
      idle.push(entry)
      slot.onClosed(() => {
        const at = idle.indexOf(entry)
        if (at < 0) return
        idle.splice(at, 1)
        discard(slot, memory, 'died')
      })
    },
    take() {
      for (let entry = idle.shift(); entry !== undefined; entry = idle.shift()) {
        if (entry.slot.alive) {
          entry.memory[Symbol.dispose]()
          return entry.slot
        }
        // The slot's channel has closed. Its `onClosed` listener was not called yet, and will no longer find
        // the slot in the list.
        discard(entry.slot, entry.memory, 'died')
      }
      return null
    },
    drop,
    dropOlder(ms) {
      const now = Date.now()
      drop(idle.filter(({ sinceMs }) => now - sinceMs > ms).length, 'age')
    },
  }
}
