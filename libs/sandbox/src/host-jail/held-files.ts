/**
 * Reads small kernel files repeatedly: each stays open after its first reading. A later reading starts at the
 * file's beginning, for which the kernel makes new content. This is one system call instead of five: 6
 * instead of 62 µs for a group's four counters.
 *
 * Do not use it for cgroup.procs: on v1, a file that stays open shows an old list for up to a second.
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

/**
 * The caller must call `close`. Callers read only a few fixed files, so the number of open files has no limit
 * here.
 */
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
