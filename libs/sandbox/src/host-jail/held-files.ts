/**
 * Reads small kernel files repeatedly: each stays open after its first reading, and every reading starts at
 * its beginning, where the kernel writes it anew. One system call instead of five: 6 instead of 62 µs for a
 * group's four counters.
 *
 * Not for cgroup.procs: v1 shows an open one its old list for up to a second.
 */
import { closeSync, openSync, readSync, writeSync } from 'node:fs'

export interface HeldFiles {
  /** The first 4 KiB, enough for counters. Empty for a missing file and after `close`. */
  read(path: string): string
  /** Throws file system errors; does nothing after `close`. */
  write(path: string, text: string): void
  /** Opens nothing afterwards. Idempotent. */
  close(): void
}

// Readings do not overlap, so one buffer serves all.
const memory = Buffer.alloc(4096)

/** The caller closes it. It holds a few named files, so their number has no limit. */
export function createHeldFiles(): HeldFiles {
  const held = new Map<string, number>()
  let isClosed = false

  function opened(path: string, flags: 'r' | 'r+'): number {
    const known = held.get(flags + path)
    if (known !== undefined) return known
    const fd = openSync(path, flags)
    held.set(flags + path, fd)
    return fd
  }

  return {
    read(path) {
      if (isClosed) return ''
      try {
        return memory.toString('latin1', 0, readSync(opened(path, 'r'), memory, 0, memory.length, 0))
      } catch {
        return ''
      }
    },
    write(path, text) {
      if (!isClosed) writeSync(opened(path, 'r+'), text, 0)
    },
    close() {
      isClosed = true
      for (const fd of held.values()) closeSync(fd)
      held.clear()
    },
  }
}
