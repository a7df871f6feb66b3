/**
 * Small files of the kernel that are read again and again: each stays open from its first reading, and every reading begins at its start,
 * where the kernel writes it anew. One system call instead of five: 6 instead of 62 µs for the four counters of a group.
 *
 * Not for cgroup.procs: of v1 the kernel shows an open one its old list for up to a second.
 */
import { closeSync, openSync, readSync } from 'node:fs'

export interface HeldFiles {
  /** The first 4 KiB, in which counters end; empty when there is no such file (any more), and after `close`. */
  read(path: string): string
  /** Nothing is opened after it. Idempotent. */
  close(): void
}

// Every reading is over before the next one begins: one memory for all.
const memory = Buffer.alloc(4096)

/** Opens nothing yet; the caller closes it. Its files are a handful by name, so nothing bounds them. */
export function createHeldFiles(): HeldFiles {
  const held = new Map<string, number>()
  let isClosed = false

  function opened(path: string): number {
    const known = held.get(path)
    if (known !== undefined) return known
    const fd = openSync(path, 'r')
    held.set(path, fd)
    return fd
  }

  return {
    read(path) {
      if (isClosed) return ''
      try {
        return memory.toString('latin1', 0, readSync(opened(path), memory, 0, memory.length, 0))
      } catch {
        return ''
      }
    },
    close() {
      isClosed = true
      for (const fd of held.values()) closeSync(fd)
      held.clear()
    },
  }
}
