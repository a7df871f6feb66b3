/**
 * What a machine is told when it goes on from a saved state: new random bytes and the time. A clone of a
 * template also gets the limits of its programs, before its agent starts.
 */
import { randomBytes } from 'node:crypto'
import { SURROUNDINGS } from '@cofferdam/contract'
import { inodesOf, seccompFilter } from '@cofferdam/sandbox/backend'
import { agentOptions } from '@cofferdam/sandbox/guest'
import type { SlotSpec } from '@cofferdam/sandbox/warm'

const MiB = 1_048_576
const UNPRIVILEGED = 65_534
// The kernel's default period, 100 ms.
const CPU_PERIOD_US = 100_000
const ENTROPY_BYTES = 64
/**
 * Memory for the agent, so that it survives when its program has none left. This is enough, because the agent
 * shares most of its memory with its parent.
 */
export const AGENT_MIB = 8
const FILTER = '/run/filter'

/** Applies only to the program's processes, because the agent needs calls that the filter refuses. */
const filter = seccompFilter('x64', false).toString('hex')

export interface ThawWords {
  nonce: string
  entropy: string
  time_ns: string
  cgroup: Record<string, string>
  /** Mount options of /tmp, which has the work directory. */
  tmp: string
  shm_bytes: number
  open_files: number
  filter: string
  options: string[]
}

/** What a machine is told when it goes on from a saved state. */
export type AgainWords = Pick<ThawWords, 'nonce' | 'entropy' | 'time_ns'> & {
  /**
   * Ends every process but the agent: a fork must not use random generators in the same state as another
   * machine.
   */
  fresh: boolean
}

/** Fresh random bytes in every call, so that two machines share none. */
export const againWords = (fresh: boolean): AgainWords => ({
  nonce: randomBytes(16).toString('hex'),
  entropy: randomBytes(ENTROPY_BYTES).toString('hex'),
  time_ns: String(BigInt(Date.now()) * 1_000_000n),
  fresh,
})

/** The first message to a clone of a template. */
export function thawWords({ language, limits, cell, preload }: SlotSpec): ThawWords {
  const { nonce, entropy, time_ns } = againWords(false)
  const memory = (limits.memory_mib + AGENT_MIB) * MiB
  // Files in a tmpfs count as memory of the program, so a larger tmpfs could never be filled.
  const diskMib = Math.min(limits.disk_mib, limits.memory_mib)
  return {
    nonce,
    entropy,
    time_ns,
    cgroup: {
      'memory.max': String(memory),
      // One for the agent.
      'pids.max': String(limits.pids + 1),
      'cpu.max': `${Math.round(limits.cpus * CPU_PERIOD_US)} ${CPU_PERIOD_US}`,
    },
    tmp: `size=${diskMib}m,nr_inodes=${inodesOf(diskMib)},mode=1777`,
    shm_bytes: SURROUNDINGS.shmBytes,
    open_files: SURROUNDINGS.openFiles,
    filter,
    options: agentOptions({
      python: '/usr/bin/python3',
      language,
      cgroup: true,
      ownDisk: true,
      uid: UNPRIVILEGED,
      gid: UNPRIVILEGED,
      seccomp: FILTER,
      cell,
      preload,
    }),
  }
}
