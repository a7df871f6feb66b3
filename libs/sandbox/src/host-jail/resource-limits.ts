/** Limits of programs without a cgroup. */

const MiB = 1024 * 1024

/** Memory that an interpreter reserves but never uses: Node 26 ends with SIGTRAP below 560 MiB. */
const RESERVED_MIB = 768

/**
 * These limits hold per process (`data`) or per user (`nproc`), so they are weaker than a cgroup. `data`
 * counts writable private memory. It backs up the memory watch and leaves room for allocators' reserves.
 * RLIMIT_AS would break Node.
 */
export const withoutCgroup = (limits: { memory_mib: number; pids: number }): Record<string, number> => ({
  nproc: limits.pids + 1,
  data: dataLimit(limits.memory_mib),
})

/** The `data` limit in bytes. Use it alone if `nproc` would count other processes of the same user. */
export const dataLimit = (memoryMib: number): number => (2 * memoryMib + RESERVED_MIB) * MiB
