/**
 * A cgroup per sandbox where this process may make one: v1 as root, v2 as root or below a delegated group. Without, there
 * are resource limits and the memory watch, which are weaker; `createCgroups` then gives null.
 *
 * Joining costs 7-19 ms per process on an idle host (the kernel waits for an RCU grace period, local-isolation.md §2), so
 * it happens while the agent's interpreter starts, before any program process exists.
 */
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Limits } from '@cofferdam/contract'

const MiB = 1024 * 1024
/** What the agent and the waiting interpreter's shared parts take beside the program (measured 9-11 MiB for the agent). */
const AGENT_MIB = 12
/** The agent beside the program's processes. */
const AGENT_PIDS = 1
const PERIOD_US = 100_000

export interface CgroupCounters {
  cpuUs: number
  memoryPeak: number
  oomKills: number
  pidsHits: number
}

export interface Cgroup {
  join(pid: number): Promise<void>
  read(): Promise<CgroupCounters>
  pids(): Promise<number[]>
  /** Removes the group; its processes must be gone. Resolves false when it is still busy. */
  remove(): Promise<boolean>
}

export interface Cgroups {
  readonly version: 'v1' | 'v2'
  create(id: string, limits: Limits): Promise<Cgroup>
  /** Removes our own group above when no sandbox of any worker is in it. */
  close(): Promise<void>
  /** The group of a sandbox that may be left from an earlier worker. */
  find(id: string): Cgroup
}

interface Layout {
  version: 'v1' | 'v2'
  /** Folder per controller; v2 has one for all. */
  folder: Record<'memory' | 'pids' | 'cpu' | 'cpuacct', string>
}

const read = async (path: string): Promise<string> => (await readFile(path, 'utf8')).trim()
const numberIn = async (path: string): Promise<number> => Number(await read(path).catch(() => '0')) || 0
async function fieldIn(path: string, name: string): Promise<number> {
  const text = await read(path).catch(() => '')
  const line = text.split('\n').find((l) => l.startsWith(`${name} `))
  return Number(line?.slice(name.length + 1) ?? 0) || 0
}

/** Null where no cgroup with memory and pids can be made. `parent` names a delegated v2 group or null. */
export async function createCgroups(parent: string | null): Promise<Cgroups | null> {
  const layout = (await v2Layout(parent)) ?? (await v1Layout())
  if (layout === null) return null
  return {
    version: layout.version,
    find: (id) => groupOf(layout, id),
    async close() {
      // Made again by the next create; on v2 its controllers would have to be enabled again, so it stays.
      if (layout.version === 'v1')
        await Promise.allSettled([...new Set(Object.values(layout.folder))].map((folder) => rmdir(folder)))
    },
    async create(id, limits) {
      const folders = foldersOf(layout, id)
      await Promise.all(folders.map((folder) => mkdir(folder, { recursive: true })))
      await limit(layout, id, limits)
      return groupOf(layout, id)
    },
  }
}

const foldersOf = (layout: Layout, id: string): string[] => [
  ...new Set(Object.values(layout.folder).map((folder) => join(folder, id))),
]

async function v1Layout(): Promise<Layout | null> {
  const lines = (await read('/proc/self/cgroup').catch(() => '')).split('\n')
  const own = (controller: string): string | null => {
    const line = lines.find((l) => l.split(':')[1]?.split(',').includes(controller))
    return line === undefined ? null : line.split(':').slice(2).join(':')
  }
  const folder: Partial<Layout['folder']> = {}
  for (const controller of ['memory', 'pids', 'cpu', 'cpuacct'] as const) {
    const path = own(controller)
    if (path === null) return null
    const parent = join('/sys/fs/cgroup', controller, path)
    const base = join(parent, 'cofferdam')
    try {
      // First: where no cgroup is mounted (a chroot, a plain sysfs), Node's recursive mkdir never ends, because each
      // level answers ENOENT and the one above it EEXIST.
      await readFile(join(parent, 'cgroup.procs'))
      await mkdir(base, { recursive: true })
      await readFile(join(base, 'cgroup.procs'))
      await writeFile(join(base, 'notify_on_release'), '0')
    } catch {
      return null
    }
    folder[controller] = base
  }
  const { memory, pids, cpu, cpuacct } = folder
  if (memory === undefined || pids === undefined || cpu === undefined || cpuacct === undefined) return null
  return { version: 'v1', folder: { memory, pids, cpu, cpuacct } }
}

async function v2Layout(parent: string | null): Promise<Layout | null> {
  const own = (await read('/proc/self/cgroup').catch(() => ''))
    .split('\n')
    .find((l) => l.startsWith('0::'))
    ?.slice(3)
  // The root group may hold processes and controllers at once; a delegated group must be empty of processes.
  const candidates = parent === null ? ['/sys/fs/cgroup', join('/sys/fs/cgroup', own ?? '')] : [parent]
  for (const candidate of candidates) {
    try {
      const controllers = (await read(join(candidate, 'cgroup.controllers'))).split(' ')
      if (!['memory', 'pids', 'cpu'].every((c) => controllers.includes(c))) continue
      await writeFile(join(candidate, 'cgroup.subtree_control'), '+memory +pids +cpu')
      const base = join(candidate, 'cofferdam')
      await mkdir(base, { recursive: true })
      await writeFile(join(base, 'cgroup.subtree_control'), '+memory +pids +cpu')
      return { version: 'v2', folder: { memory: base, pids: base, cpu: base, cpuacct: base } }
    } catch {
      continue
    }
  }
  return null
}

async function limit(layout: Layout, id: string, limits: Limits): Promise<void> {
  const bytes = String((limits.memory_mib + AGENT_MIB) * MiB)
  const quota = Math.max(1000, Math.round(limits.cpus * PERIOD_US))
  const pids = String(limits.pids + AGENT_PIDS)
  const { memory, cpu } = layout.folder
  const write = (folder: string, file: string, value: string): Promise<void> =>
    writeFile(join(folder, id, file), value)
  if (layout.version === 'v2') {
    await write(memory, 'memory.max', bytes)
    await write(memory, 'memory.swap.max', '0').catch(() => {})
    await write(cpu, 'cpu.max', `${quota} ${PERIOD_US}`)
  } else {
    await write(memory, 'memory.limit_in_bytes', bytes)
    // Absent where the kernel accounts no swap.
    await write(memory, 'memory.memsw.limit_in_bytes', bytes).catch(() => {})
    await write(cpu, 'cpu.cfs_period_us', String(PERIOD_US))
    await write(cpu, 'cpu.cfs_quota_us', String(quota))
  }
  await write(layout.folder.pids, 'pids.max', pids)
}

function groupOf(layout: Layout, id: string): Cgroup {
  const at = (controller: keyof Layout['folder'], file: string): string =>
    join(layout.folder[controller], id, file)
  const isV2 = layout.version === 'v2'
  return {
    async join(pid) {
      // One after the other: the second and later moves find the grace period over and cost microseconds.
      for (const folder of foldersOf(layout, id)) await writeFile(join(folder, 'cgroup.procs'), String(pid))
    },
    async read() {
      const [cpuUs, memoryPeak, oomKills, pidsHits] = await Promise.all([
        isV2
          ? fieldIn(at('cpu', 'cpu.stat'), 'usage_usec')
          : numberIn(at('cpuacct', 'cpuacct.usage')).then((ns) => Math.round(ns / 1000)),
        numberIn(at('memory', isV2 ? 'memory.peak' : 'memory.max_usage_in_bytes')),
        fieldIn(at('memory', isV2 ? 'memory.events' : 'memory.oom_control'), 'oom_kill'),
        fieldIn(at('pids', 'pids.events'), 'max'),
      ])
      return { cpuUs, memoryPeak, oomKills, pidsHits }
    },
    async pids() {
      const text = await read(at('pids', 'cgroup.procs')).catch(() => '')
      return text === '' ? [] : text.split('\n').map(Number)
    },
    async remove() {
      // A zombie that its parent has not reaped yet keeps the group busy for a moment.
      for (let pause = 1; pause <= 64; pause *= 2) {
        const left = await Promise.all(
          foldersOf(layout, id).map((folder) =>
            rmdir(folder).then(
              () => false,
              (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
            ),
          ),
        )
        if (!left.includes(true)) return true
        await sleep(pause)
      }
      return false
    },
  }
}
