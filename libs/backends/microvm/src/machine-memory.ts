/**
 * The memory of this host that a machine takes in addition to its program. It is the kernel's proportional
 * share (PSS): a page that many clones of one template share is counted once among them.
 */
import { readFile } from 'node:fs/promises'

/** Used until a machine was measured (82 MiB for a lone machine, 54 MiB for each of four). */
const FIRST_GUESS = 80 * 1_048_576
/**
 * Measurements kept. The largest one counts, because a machine that is alone shares its template's pages with
 * no other.
 */
const LOOKS_KEPT = 8

export interface MachineMemory {
  /** Memory to count for the next machine, in bytes. */
  readonly bytes: number
  /** Measures the machine of this process, which has just started and has no program yet. */
  look(pid: number): Promise<void>
}

export function createMachineMemory(): MachineMemory {
  const seen: number[] = []
  return {
    get bytes() {
      return seen.length === 0 ? FIRST_GUESS : Math.max(...seen)
    },
    async look(pid) {
      const bytes = await proportionalShare(pid)
      if (bytes !== null) seen.splice(0, seen.length, ...seen.slice(1 - LOOKS_KEPT), bytes)
    },
  }
}

/** Null if the process is gone or belongs to another user. */
export async function proportionalShare(pid: number): Promise<number | null> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'latin1').catch(() => '')
  const [, kib] = /^Pss:\s+(\d+) kB$/m.exec(rollup) ?? []
  return kib === undefined ? null : Number(kib) * 1024
}
