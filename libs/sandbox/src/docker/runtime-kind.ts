/**
 * What an OCI runtime makes of the same container: who the kernel is decides which limits hold and what is
 * measured.
 */
import {
  LANGUAGES,
  SESSION_SCOPES,
  type Capabilities,
  type Isolation,
  type Limits,
} from '@cofferdam/contract'

export interface RuntimeKind {
  isolation: Isolation
  /**
   * Programs run on another kernel than the host's. A name promises that; each start has to show it
   * (`runsOnHostKernel`).
   */
  hasOwnKernel: boolean
  capabilities: Capabilities
  /** What the container's pids cgroup must allow so that a program gets `pids` of its own. */
  pidsLimit(limits: Pick<Limits, 'pids'>): number
  /** Limits that the agent sets on the program's processes, for what the container's cgroup does not hold. */
  rlimits(limits: Pick<Limits, 'pids'>): Record<string, number>
  /** MiB beside the program's own memory. */
  memoryOverheadMib: number
  /** The container's /sys/fs/cgroup is its own and counts what its programs use. */
  hasCgroup: boolean
  /** A unix socket of the host can be connected to from inside. */
  reachesHostSockets: boolean
  /**
   * CPU time and memory are read from the container's cgroup on this host; the kind's `measures` are what
   * holds where that is visible.
   */
  countsOnHost: boolean
  /** The runtime's kill waits for a kernel that the program keeps busy: it is killed from this host first. */
  heedsKillLate: boolean
}

const COMMON = {
  languages: LANGUAGES,
  programs: ['script', 'command'],
  // Never an interface: connections of programs are carried by the agent's channel.
  network: ['none', 'public', 'allow'],
  stdin: true,
  files: true,
  artifacts: true,
  streaming: true,
  sessions: SESSION_SCOPES,
  preloads: [],
  value: true,
  progress: true,
  interrupt: true,
  maxMs: null,
} as const

/** runc, crun and whatever else runs programs on the host's kernel. */
const HOST_KERNEL: RuntimeKind = {
  isolation: 'container',
  hasOwnKernel: false,
  capabilities: {
    ...COMMON,
    enforces: ['memory', 'cpus', 'pids', 'disk'],
    measures: ['cpu_ms', 'peak_memory_bytes', 'read_bytes', 'write_bytes', 'disk_bytes', 'wall_ms'],
  },
  // The agent; the rest is the program's.
  pidsLimit: ({ pids }) => pids + 1,
  rlimits: () => ({}),
  // The agent: 8-10 MiB resident (measured), and it must survive the program's out-of-memory.
  memoryOverheadMib: 16,
  hasCgroup: true,
  reachesHostSockets: true,
  countsOnHost: false,
  heedsKillLate: false,
}

/**
 * gVisor. The pids cgroup counts threads of its own kernel and stubs, not the program's processes: at 65 it
 * died on a `touch` (measured, release 20221219), so that number only protects the host; its kernel holds
 * RLIMIT_NPROC for the program's user instead. Its clock of CPU time counts in ticks, also while it is
 * throttled or sleeps, and there is no cgroup inside: what it used is read from the container's cgroup on
 * this host.
 */
const USER_SPACE_KERNEL: RuntimeKind = {
  isolation: 'gvisor',
  hasOwnKernel: true,
  capabilities: {
    ...COMMON,
    // No list of a process's children in its /proc: what else runs cannot be told from an interpreter that
    // should stay.
    sessions: ['none', 'files'],
    enforces: ['memory', 'cpus', 'pids', 'disk'],
    measures: ['cpu_ms', 'peak_memory_bytes', 'wall_ms'],
  },
  // Some 60 tasks for itself and 7 for each process (measured).
  pidsLimit: ({ pids }) => 1024 + 16 * pids,
  // Without the main process: it became the program's user after it was made, which is not counted
  // (measured).
  rlimits: ({ pids }) => ({ nproc: pids - 1 }),
  // The user-space kernel and its file server 16 MiB, the agent 10 (measured).
  memoryOverheadMib: 32,
  hasCgroup: false,
  // Closed by default (`--host-uds=none`), and it should stay so.
  reachesHostSockets: false,
  countsOnHost: true,
  heedsKillLate: true,
}

/**
 * Kata Containers: a virtual machine with a kernel of its own, untested here. Nothing is claimed of its
 * counters; memory and CPUs are the machine's size, the disk is a tmpfs inside it.
 */
const VIRTUAL_MACHINE: RuntimeKind = {
  isolation: 'microvm',
  hasOwnKernel: true,
  capabilities: { ...COMMON, enforces: ['memory', 'cpus', 'disk'], measures: ['wall_ms'] },
  pidsLimit: ({ pids }) => pids + 1,
  rlimits: () => ({}),
  // The agent's 16; the guest kernel's memory comes on top of the container's limit (its default_memory).
  memoryOverheadMib: 16,
  hasCgroup: false,
  reachesHostSockets: false,
  countsOnHost: false,
  heedsKillLate: false,
}

/**
 * The kind by the runtime's name: `runsc`, `runsc-kvm`; `kata`, `kata-qemu`, `io.containerd.kata.v2`; all
 * else is the host's kernel.
 */
export function runtimeKind(runtime: string | null): RuntimeKind {
  if (runtime === null) return HOST_KERNEL
  const name = runtime.replace(/^io\.containerd\./, '')
  if (name.startsWith('runsc')) return USER_SPACE_KERNEL
  return name.startsWith('kata') ? VIRTUAL_MACHINE : HOST_KERNEL
}

/**
 * Whether a sandbox that was to have a kernel of its own is on the host's: anybody can register runc under
 * the name `kata`. Compares the releases that the agent and the daemon say; unknown is as bad as equal.
 */
export const runsOnHostKernel = (
  { hasOwnKernel }: Pick<RuntimeKind, 'hasOwnKernel'>,
  inside: string,
  host: string | null,
): boolean => hasOwnKernel && (inside === '' || host === null || inside === host)
