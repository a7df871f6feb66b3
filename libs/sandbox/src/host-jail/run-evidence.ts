/** What this host sees of a run from outside, beside the guest's word for it. */
import type { Exit, SandboxSpec, Usage } from '@cofferdam/contract'
import type { CgroupCounters } from './cgroups.ts'
import { diskUse } from './disk-use.ts'
import { watchFolder } from './folder-watch.ts'
import type { HostSlotParts } from './host-slot.ts'
import { watchMemory } from './memory-watch.ts'
import { treeCpuMs } from './tree-cpu.ts'

const MiB = 1024 * 1024

/** One run, watched until `stop`. */
export interface RunEvidence {
  /** Counters at its start; null without a cgroup. */
  readonly before: CgroupCounters | null
  /** Since its start. */
  wallMs(): number
  /** CPU time since its start, by a walk over its processes; null with a cgroup, which counts better, and where nothing limits it. */
  walkedCpuMs(): number | null
  /** Processes that the kernel killed for memory since its start; 0 without a cgroup. */
  oomKills(): number
  /** The guest's word for what only it knows, the kernel's counters and our own watches for the rest. */
  addTo(exit: Exit): Exit
  stop(): void
}

/**
 * Begins to watch a run that is about to start: reads its counters, and looks at what the kernel does not limit on this host, memory without
 * a cgroup and a folder of the host's.
 */
export function watchRun(parts: HostSlotParts, { limits, reuse }: SandboxSpec): RunEvidence {
  const { cgroup, identity, disks, folder, atRest } = parts
  if (reuse !== 'job') cgroup?.resetPeak()
  // Reading takes 0.2 ms, which a program of its own slot need not wait for.
  const before = reuse === 'job' ? atRest : (cgroup?.read() ?? null)
  const startedMs = performance.now()
  const isWalked = cgroup === null && limits.cpu_time_ms !== undefined
  const cpuBefore = isWalked ? treeCpuMs(identity.pid) : null
  const memory = cgroup === null ? watchMemory(identity.pid, limits.memory_mib * MiB, disks) : null
  const disk = folder === null ? null : watchFolder(folder, limits.disk_mib, identity.pid)
  return {
    before,
    wallMs: () => performance.now() - startedMs,
    walkedCpuMs: () => (cpuBefore === null ? null : treeCpuMs(identity.pid) - cpuBefore),
    oomKills: () => (cgroup?.read().oomKills ?? 0) - (before?.oomKills ?? 0),
    addTo(exit) {
      const after = cgroup?.read() ?? null
      const seen: Exit = {
        ...exit,
        usage: { ...exit.usage, ...usageFromHost(parts, before, after) },
        diskLimitHit: exit.diskLimitHit || (disk?.kills ?? 0) > 0,
      }
      return before === null || after === null
        ? { ...seen, oomKills: exit.oomKills + (memory?.kills ?? 0) }
        : {
            ...seen,
            oomKills: after.oomKills - before.oomKills,
            pidsLimitHit: after.pidsHits > before.pidsHits,
          }
    },
    stop() {
      memory?.stop()
      disk?.stop()
    },
  }
}

/** What is measured from outside, where we may look, since `before`: from now on when that is null. */
export function usageFromHost(
  { cgroup, disks }: HostSlotParts,
  before: CgroupCounters | null,
  now: CgroupCounters | null = cgroup?.read() ?? null,
): Partial<Usage> {
  const disk = diskUse(disks)
  return {
    ...(now === null ? {} : counted(before ?? now, now)),
    ...(disk === null ? {} : { disk_bytes: disk.bytes }),
  }
}

const counted = (before: CgroupCounters, now: CgroupCounters): Partial<Usage> => ({
  cpu_ms: (now.cpuUs - before.cpuUs) / 1000,
  peak_memory_bytes: now.memoryPeak,
  ...(now.pidsPeak === null ? {} : { pids_peak: now.pidsPeak }),
})
