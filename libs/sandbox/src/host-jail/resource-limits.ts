/** What limits programs where no cgroup can be made. */

const MiB = 1024 * 1024

/** What an interpreter reserves at its start and never uses: Node 26 ends with SIGTRAP below some 560 MiB. */
const RESERVED_MIB = 768

/**
 * Per process or per user, so weaker than a cgroup. `data` counts writable private memory: a net below the
 * memory watch, wide enough for what allocators reserve. RLIMIT_AS would break Node.
 */
export const withoutCgroup = (limits: { memory_mib: number; pids: number }): Record<string, number> => ({
  nproc: limits.pids + 1,
  data: dataLimit(limits.memory_mib),
})

/** The `data` of it, bytes, for whom a number of processes would be that of the whole user. */
export const dataLimit = (memoryMib: number): number => (2 * memoryMib + RESERVED_MIB) * MiB
