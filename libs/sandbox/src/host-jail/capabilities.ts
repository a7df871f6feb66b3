/** What a host backend can do on this host, for `open` to refuse other requests and for doctor to print. */
import { LANGUAGES, SESSION_SCOPES, type Capabilities } from '@cofferdam/contract'
import type { Cgroups } from './cgroups.ts'
import type { Rung } from './rung.ts'

/** `rung`: null if no rung works on this host. The capabilities are then the least that any rung has. */
export function capabilitiesOf(
  rung: Rung | null,
  cgroups: Cgroups | null,
  preloads: readonly string[],
): Capabilities {
  // Background processes need limits that hold between executions, when no run is watched.
  const limitsStay = cgroups !== null && (rung?.ownDisks.length ?? 0) > 0
  return {
    languages: LANGUAGES,
    programs: ['script', 'command'],
    network: rung?.network ?? ['none'],
    stdin: true,
    files: true,
    artifacts: true,
    streaming: true,
    // Sessions need a slot whose namespaces hold everything that a run can leave. Otherwise a run may write
    // to folders, shared memory and message queues of the host, which a wipe cannot clean.
    sessions:
      rung?.ownsPids !== true ? [] : SESSION_SCOPES.filter((scope) => scope !== 'processes' || limitsStay),
    preloads,
    value: true,
    progress: true,
    interrupt: true,
    maxMs: null,
    enforces: [
      ...new Set([
        ...(rung?.enforces ?? []),
        ...(cgroups === null ? [] : (['memory', 'cpus', 'pids'] as const)),
      ]),
    ],
    measures: [
      'cpu_ms',
      'peak_memory_bytes',
      'wall_ms',
      ...((rung?.ownDisks.length ?? 0) > 0 ? (['disk_bytes'] as const) : []),
      // The agent reads these from its own /proc/self/io. A jail without namespaces hides /proc.
      ...(rung?.showsProc === true ? (['read_bytes', 'write_bytes'] as const) : []),
      ...(cgroups?.countsPidsPeak === true ? (['pids_peak'] as const) : []),
    ],
  }
}

/** Lines for doctor that say which limits this host enforces, and how. */
export function limitFeatures(capabilities: Capabilities, cgroups: Cgroups | null): string[] {
  const missing = (['memory', 'cpus', 'pids', 'disk'] as const).filter(
    (limit) => !capabilities.enforces.includes(limit),
  )
  return [
    cgroups === null
      ? 'no writable cgroup: memory is watched and killed every 25 ms (memfd_create and shmget refused in jails), processes are limited by RLIMIT_NPROC, CPU is not; run as root, or delegate a cgroup v2 (systemd Delegate=yes) and set cgroup_parent'
      : `cgroup ${cgroups.version}: memory, CPU and processes limited; counted: ${capabilities.measures.join(', ')}`,
    ...(capabilities.sessions.length === 0
      ? ['no sessions and no reuse by tenants: without namespaces a sandbox cannot be proven clean']
      : []),
    ...(missing.length > 0 ? [`not enforced: ${missing.join(', ')}`] : []),
  ]
}
