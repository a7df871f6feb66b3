/**
 * Reads small files of the kernel again and again: each stays open from its first reading, and every
 * reading begins at its start, where the kernel writes it anew. One system call instead of five: 6 instead of
 * 62 µs for the four counters of a group.
 *
 * Not for cgroup.procs: of v1 the kernel shows an open one its old list for up to a second.
 */
import { closeSync, openSync, readSync, writeSync } from 'node:fs'

export interface HeldFiles {
  /**
   * The first 4 KiB, in which counters end; empty when there is no such file (any more), and after `close`.
   */
  read(path: string): string
  /** Throws what the file system throws; does nothing after `close`. */
  write(path: string, text: string): void
  /** Nothing is opened after it. Idempotent. */
  close(): void
}

// Every reading is over before the next one begins: one memory for all.
const memory = Buffer.alloc(4096)

/** Opens nothing yet; the caller closes it. Its files are a handful by name, so nothing bounds them. */
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
