/**
 * Counters of a container's cgroup on this host, for runtimes with their own kernel, whose inner counters are
 * coarse or missing. They include the container's kernel, which works for the program.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Usage } from '@cofferdam/contract'
import type { BackendLogger } from '../deps.ts'
import type { Daemon } from './daemon.ts'

const ROOT = '/sys/fs/cgroup'

/** Counters of one container, from the moment when its interpreter waits. */
export interface HostCounters {
  /** Starts counting for a program. */
  begin(): void
  /** Use since `begin`; null for unreadable values. */
  used(): Pick<Usage, 'cpu_ms' | 'peak_memory_bytes'>
}

export interface HostCounterSource {
  /** False if the container's cgroup is not visible (remote daemon, worker in a container). */
  readonly isAvailable: boolean
  /** Null if not available. */
  of(containerName: string): Promise<HostCounters | null>
}

/** Calls the daemon only in `of`. */
export function createHostCounterSource(daemon: Daemon, logger: BackendLogger): HostCounterSource {
  let isAvailable = existsSync(ROOT)
  let hasWorked = false
  const groupsOf = (pid: number): string => {
    try {
      return readFileSync(`/proc/${pid}/cgroup`, 'latin1')
    } catch {
      return ''
    }
  }
  return {
    get isAvailable() {
      return isAvailable
    },
    async of(name) {
      if (!isAvailable) return null
      const { Id: id, State: state } = await daemon.call('inspect', (abortSignal) =>
        daemon.docker.getContainer(name).inspect({ abortSignal }),
      )
      const files = counterFiles(groupsOf(state.Pid), id)
      if (files !== null) {
        hasWorked = true
        return countersIn(files)
      }
      // If another container's cgroup was visible before, this container has just ended. Otherwise none is
      // visible from here.
      if (!hasWorked) {
        isAvailable = false
        logger.warn({ container: name }, 'a container’s cgroup is not visible from here')
      }
      return null
    },
  }
}

interface CounterFiles {
  version: 'v1' | 'v2'
  cpu: string
  memory: string
  peak: string
}

/** Counter files for the content of /proc/<pid>/cgroup; null if missing or not of the container `id`. */
export function counterFiles(groups: string, id: string, root = ROOT): CounterFiles | null {
  // `9:memory:/docker/<id>` for each hierarchy of v1, `0::/system.slice/docker-<id>.scope` for v2.
  const rows = groups.split('\n').map((line) => line.split(':'))
  const folderOf = (controller: string): string | null => {
    const row = rows.find(([, names = '']) => names.split(',').includes(controller))
    const path = row?.slice(2).join(':') ?? ''
    if (!/^[0-9a-f]{64}$/.test(id) || !path.includes(id) || path.includes('..')) return null
    return join(root, controller, path)
  }
  const [cpu, memory, unified] = [folderOf('cpuacct'), folderOf('memory'), folderOf('')]
  const files: CounterFiles | null =
    cpu !== null && memory !== null
      ? {
          version: 'v1',
          cpu: join(cpu, 'cpuacct.usage'),
          memory: join(memory, 'memory.usage_in_bytes'),
          peak: join(memory, 'memory.max_usage_in_bytes'),
        }
      : unified !== null
        ? {
            version: 'v2',
            cpu: join(unified, 'cpu.stat'),
            memory: join(unified, 'memory.current'),
            peak: join(unified, 'memory.peak'),
          }
        : null
  return files !== null && existsSync(files.cpu) && existsSync(files.memory) ? files : null
}

/** Counts from now on. */
export function countersIn(files: CounterFiles): HostCounters {
  const text = (path: string): string | null => {
    try {
      return readFileSync(path, 'latin1')
    } catch {
      return null
    }
  }
  const cpuMs = (): number | null => {
    const said = text(files.cpu)
    if (said === null) return null
    return files.version === 'v1' ? Number(said) / 1e6 : Number(/^usage_usec (\d+)$/m.exec(said)?.[1]) / 1000
  }
  const bytes = (path: string): number | null => {
    const said = text(path)
    return said === null ? null : Number(said)
  }
  // Memory of the container's kernel, the agent and the waiting interpreter. The program's comes on top.
  const idle = bytes(files.memory) ?? 0
  let before = cpuMs()
  return {
    begin() {
      before = cpuMs()
      try {
        // v1 can reset the peak. v2 cannot, so its peak may belong to an earlier run of the cell.
        if (files.version === 'v1') writeFileSync(files.peak, '0')
      } catch {
        // Without root, the peak of the start-up stays included.
      }
    },
    used() {
      const now = cpuMs()
      const peak = bytes(files.peak)
      return {
        cpu_ms: now === null || before === null ? null : Math.max(0, now - before),
        peak_memory_bytes: peak === null ? null : Math.max(0, peak - idle),
      }
    },
  }
}
