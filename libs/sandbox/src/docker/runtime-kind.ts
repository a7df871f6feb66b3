/** Differences between OCI runtimes: the kernel decides which limits hold and what is measured. */
import {
  LANGUAGES,
  SESSION_SCOPES,
  type Capabilities,
  type Isolation,
  type Limits,
} from '@cofferdam/contract'

export interface RuntimeKind {
  /**
   * What the runtime claims. If the runtime claims a virtual machine, only what is proven counts
   * (prove-isolation.ts).
   */
  isolation: Isolation
  isMachine: boolean
  /** Programs should run on a kernel other than the host's; each start verifies it. */
  hasOwnKernel: boolean
  capabilities: Capabilities
  /** The container's pids limit for a program that may have `pids` processes. */
  pidsLimit(limits: Pick<Limits, 'pids'>): number
  /** Limits that the agent sets, for what the container's cgroup does not limit. */
  rlimits(limits: Pick<Limits, 'pids'>): Record<string, number>
  /** MiB in addition to the program's memory. */
  memoryOverheadMib: number
  /** Whether /sys/fs/cgroup inside is the container's own and counts its programs. */
  hasCgroup: boolean
  /** Whether programs inside can connect to a unix socket of the host. */
  reachesHostSockets: boolean
  /** CPU time and memory come from the container's cgroup on this host, if that is visible. */
  countsOnHost: boolean
  /** The runtime's kill waits for a busy inner kernel, so the container is killed from this host first. */
  heedsKillLate: boolean
}

const COMMON = {
  languages: LANGUAGES,
  programs: ['script', 'command'],
  // Never a network interface: the agent's channel carries programs' connections.
  network: ['none', 'public', 'allow'],
  stdin: true,
  files: true,
  artifacts: true,
  streaming: true,
  sessions: ['none', 'files', 'interpreter'],
  preloads: [],
  value: true,
  progress: true,
  interrupt: true,
  maxMs: null,
} as const

/** runc, crun and other runtimes on the host's kernel. */
const HOST_KERNEL: RuntimeKind = {
  isolation: 'container',
  isMachine: false,
  hasOwnKernel: false,
  capabilities: {
    ...COMMON,
    sessions: SESSION_SCOPES,
    enforces: ['memory', 'cpus', 'pids', 'disk'],
    measures: ['cpu_ms', 'peak_memory_bytes', 'read_bytes', 'write_bytes', 'disk_bytes', 'wall_ms'],
  },
  // One for the agent.
  pidsLimit: ({ pids }) => pids + 1,
  rlimits: () => ({}),
  // The agent has 8-10 MiB resident (measured), and must survive the program's out-of-memory.
  memoryOverheadMib: 16,
  hasCgroup: true,
  reachesHostSockets: true,
  countsOnHost: false,
  heedsKillLate: false,
}

/**
 * gVisor. The pids cgroup counts threads of gVisor's kernel and stubs, not the program's processes: with a
 * limit of 65 it died on a `touch` (measured, release 20221219). So that limit only protects the host, and
 * gVisor's kernel enforces RLIMIT_NPROC for the program's user. Its CPU clock counts in ticks, even while
 * throttled or asleep, and there is no inner cgroup: use is read from the container's cgroup on this host.
 */
const USER_SPACE_KERNEL: RuntimeKind = {
  isolation: 'gvisor',
  isMachine: false,
  hasOwnKernel: true,
  capabilities: {
    ...COMMON,
    // gVisor's /proc has no list of children, so a kept interpreter cannot be told from other processes.
    sessions: ['none', 'files'],
    enforces: ['memory', 'cpus', 'pids', 'disk'],
    measures: ['cpu_ms', 'peak_memory_bytes', 'wall_ms'],
  },
  // gVisor needs about 60 tasks for itself and 7 for each process (measured).
  pidsLimit: ({ pids }) => 1024 + 16 * pids,
  // One less than `pids`: the main process is not counted, because it changed its user after its start
  // (measured).
  rlimits: ({ pids }) => ({ nproc: pids - 1 }),
  // User-space kernel and file server 16 MiB, agent 10 MiB (measured).
  memoryOverheadMib: 32,
  hasCgroup: false,
  // gVisor closes host sockets by default (`--host-uds=none`). They should stay closed.
  reachesHostSockets: false,
  countsOnHost: true,
  heedsKillLate: true,
}

/**
 * Kata Containers: a virtual machine with its own kernel, untested here. No counters are declared. Memory and
 * CPUs are the machine's size, the disk is a tmpfs in it.
 */
const VIRTUAL_MACHINE: RuntimeKind = {
  isolation: 'microvm',
  isMachine: true,
  hasOwnKernel: true,
  capabilities: { ...COMMON, enforces: ['memory', 'cpus', 'disk'], measures: ['wall_ms'] },
  pidsLimit: ({ pids }) => pids + 1,
  rlimits: () => ({}),
  // For the agent. The guest kernel's memory comes on top of the container's limit (default_memory of Kata).
  memoryOverheadMib: 16,
  hasCgroup: false,
  reachesHostSockets: false,
  countsOnHost: false,
  heedsKillLate: false,
}

/** By name: `runsc`, `runsc-kvm`; `kata`, `kata-qemu`, `io.containerd.kata.v2`; others: the host's kernel. */
export function runtimeKind(runtime: string | null): RuntimeKind {
  if (runtime === null) return HOST_KERNEL
  const name = runtime.replace(/^io\.containerd\./, '')
  if (name.startsWith('runsc')) return USER_SPACE_KERNEL
  return name.startsWith('kata') ? VIRTUAL_MACHINE : HOST_KERNEL
}

/**
 * Whether a sandbox that should have its own kernel is on the host's: anybody can register runc as `kata`.
 * Compares the releases reported by agent and daemon. An unknown release counts as equal.
 */
export const runsOnHostKernel = (
  { hasOwnKernel }: Pick<RuntimeKind, 'hasOwnKernel'>,
  inside: string,
  host: string | null,
): boolean => hasOwnKernel && (inside === '' || host === null || inside === host)
