/**
 * A cgroup per slot if this process may create one: v1 as root, v2 as root or below a delegated group.
 * Otherwise `createCgroups` returns null, and the weaker resource limits and memory watch replace it.
 *
 * Joining costs 7-19 ms per process on an idle host, because the kernel waits for an RCU grace period. So the
 * agent joins while its interpreter starts, before any program process exists. Creating and removing a slot's
 * group waits for the kernel's cgroup lock. So both are asynchronous and never block the worker's main
 * thread. Counters need no lock and are read from open files.
 */
import { readFileSync, rmdirSync } from 'node:fs'
import { mkdir, readdir, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { idTimeMs } from '@cofferdam/contract'
import type { SlotLimits } from '../warm/index.ts'
import { findCgroupLayout, type CgroupLayout, type Controller } from './cgroup-layout.ts'
import { createHeldFiles } from './held-files.ts'
import { isSlotId, ORPHAN_MS } from './records.ts'

const MiB = 1024 * 1024
/** Memory of the agent and shared parts of the waiting interpreter (measured: 9-11 MiB for the agent). */
const AGENT_MIB = 12
/** The agent beside the program's processes. */
const AGENT_PIDS = 1
/** A cell also has waiting interpreters and their fork server. */
const CELL_PIDS = 3
const PERIOD_US = 100_000
/**
 * Longest pause between checks of a busy group. All pauses take about 1 s, because a parent that is stopped
 * or slow reaps its zombies late.
 */
const LAST_PAUSE_MS = 512

export interface CgroupCounters {
  cpuUs: number
  /** Since the last `resetPeak` on v1, since the slot's start on v2. */
  memoryPeak: number
  oomKills: number
  /** Forks that the kernel refused because of the pids limit. */
  pidsHits: number
  /** Null if the kernel does not count it (v1, v2 before 6.1). */
  pidsPeak: number | null
}

/** A group by its folders (one per controller of v1), which is enough to end it. */
export interface FoundCgroup {
  readonly folders: readonly string[]
  pids(): number[]
  /** Removes the group, whose processes must be gone. False if it is still busy. */
  remove(): Promise<boolean>
}

export interface Cgroup extends FoundCgroup {
  join(pid: number): Promise<void>
  read(): CgroupCounters
  /** Resets `memoryPeak` to zero if the kernel can (v1). */
  resetPeak(): void
  /**
   * Number of processes in the group. One controller is enough: every process is in all of them and cannot
   * leave.
   */
  countPids(): number
  /** True if there are at most `processes`. Fast: reads the number of tasks, one small open file. */
  holdsAtMost(processes: number): boolean
  /**
   * Closes the counters, which then read as empty. Whoever created the group must call this, even without
   * having read a counter.
   */
  close(): void
}

export interface Cgroups {
  readonly version: 'v1' | 'v2'
  readonly countsPidsPeak: boolean
  create(id: string, limits: SlotLimits, cell: boolean): Promise<Cgroup>
  /** v1 only: removes the parent group if no sandbox of any worker is in it. */
  close(): void
  /**
   * The group of a slot, at the place where this worker creates groups. A worker that runs in another cgroup
   * creates them elsewhere, as the slot's record says.
   */
  find(id: string): FoundCgroup
  /**
   * Removes empty groups of slots that are older than ten minutes. They stay if a worker was killed and its
   * runtime folder was removed before a sweep. The kernel refuses to remove a group with processes, so no
   * living slot is touched. Returns the number of removed groups.
   */
  sweep(nowMs: number): Promise<number>
}

/** Null if no cgroup with memory, pids and cpu can be created. `parent`: a delegated v2 group or null. */
export function createCgroups(parent: string | null): Cgroups | null {
  const layout = findCgroupLayout(parent)
  if (layout === null) return null
  return {
    version: layout.version,
    countsPidsPeak: countsPidsPeak(layout),
    find: (id) => cgroupAt(foldersOf(layout, id)),
    async sweep(nowMs) {
      const named = await Promise.all(basesOf(layout).map((base) => readdir(base).catch(() => [])))
      const old = [...new Set(named.flat())].filter(isSlotId).filter((id) => nowMs - idTimeMs(id) > ORPHAN_MS)
      // Removes one folder at a time. Each removal waits for the kernel's cgroup lock, which the start of a
      // slot needs too.
      let swept = 0
      for (const id of old) {
        let isGone = true
        for (const folder of foldersOf(layout, id)) isGone = (await removed(folder)) && isGone
        if (isGone) swept += 1
      }
      return swept
    },
    close() {
      // The v1 parent group can go, because `create` makes it again. The v2 one stays, because `create` would
      // not enable its controllers again.
      if (layout.version === 'v1') for (const folder of basesOf(layout)) dropEmpty(folder)
    },
    async create(id, limits, cell) {
      const folders = foldersOf(layout, id)
      try {
        for (const folder of folders) await mkdir(folder, { recursive: true })
        await limit(layout, id, limits, cell)
      } catch (error) {
        for (const folder of folders) await removed(folder)
        throw error
      }
      return groupOf(layout, id)
    },
  }
}

const basesOf = ({ folder }: CgroupLayout): string[] => [...new Set(Object.values(folder))]
const foldersOf = (layout: CgroupLayout, id: string): string[] =>
  basesOf(layout).map((base) => join(base, id))

/** True when the folder is gone. */
const removed = (folder: string): Promise<boolean> =>
  rmdir(folder).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
  )

function dropEmpty(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {
    // The folder is not empty: another worker's slots are in it.
  }
}

function text(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
const pidsIn = (folder: string): string[] =>
  text(join(folder, 'cgroup.procs'))
    .split('\n')
    .filter((line) => line !== '')
const numberIn = (said: string): number => Number(said) || 0
function fieldIn(said: string, name: string): number {
  const line = said.split('\n').find((l) => l.startsWith(`${name} `))
  return Number(line?.slice(name.length + 1) ?? 0) || 0
}

/** The root group has no `pids.peak`, so this looks in our parent group below it. */
function countsPidsPeak(layout: CgroupLayout): boolean {
  return layout.version === 'v2' && text(join(layout.folder.pids, 'pids.peak')) !== ''
}

async function limit(layout: CgroupLayout, id: string, limits: SlotLimits, cell: boolean): Promise<void> {
  const bytes = String((limits.memory_mib + AGENT_MIB) * MiB)
  const quota = Math.max(1000, Math.round(limits.cpus * PERIOD_US))
  const pids = String(limits.pids + AGENT_PIDS + (cell ? CELL_PIDS : 0))
  const { memory, cpu } = layout.folder
  const write = (folder: string, file: string, value: string): Promise<void> =>
    writeFile(join(folder, id, file), value)
  if (layout.version === 'v2') {
    await write(memory, 'memory.max', bytes)
    await write(memory, 'memory.swap.max', '0').catch(() => {})
    await write(cpu, 'cpu.max', `${quota} ${PERIOD_US}`)
  } else {
    await write(memory, 'memory.limit_in_bytes', bytes)
    // Absent if the kernel does not account swap.
    await write(memory, 'memory.memsw.limit_in_bytes', bytes).catch(() => {})
    await write(cpu, 'cpu.cfs_period_us', String(PERIOD_US))
    await write(cpu, 'cpu.cfs_quota_us', String(quota))
  }
  await write(layout.folder.pids, 'pids.max', pids)
}

function groupOf(layout: CgroupLayout, id: string): Cgroup {
  const at = (controller: Controller, file: string): string => join(layout.folder[controller], id, file)
  const isV2 = layout.version === 'v2'
  const held = createHeldFiles()
  const said = (controller: Controller, file: string): string => held.read(at(controller, file))
  const countPids = (): number => pidsIn(join(layout.folder.pids, id)).length
  return {
    async join(pid) {
      // One move after the other: the first waits for the grace period, and the later ones then cost
      // microseconds.
      for (const folder of foldersOf(layout, id)) await writeFile(join(folder, 'cgroup.procs'), String(pid))
    },
    read: () => ({
      cpuUs: isV2
        ? fieldIn(said('cpu', 'cpu.stat'), 'usage_usec')
        : Math.round(numberIn(said('cpuacct', 'cpuacct.usage')) / 1000),
      memoryPeak: numberIn(said('memory', isV2 ? 'memory.peak' : 'memory.max_usage_in_bytes')),
      oomKills: fieldIn(said('memory', isV2 ? 'memory.events' : 'memory.oom_control'), 'oom_kill'),
      pidsHits: fieldIn(said('pids', 'pids.events'), 'max'),
      pidsPeak: isV2 ? numberIn(said('pids', 'pids.peak')) || null : null,
    }),
    countPids,
    holdsAtMost(processes) {
      const tasks = numberIn(said('pids', 'pids.current'))
      return (tasks > 0 && tasks <= processes) || countPids() <= processes
    },
    close: () => held.close(),
    resetPeak() {
      if (isV2) return
      try {
        held.write(at('memory', 'memory.max_usage_in_bytes'), '0')
      } catch {
        // The slot is being removed.
      }
    },
    ...cgroupAt(foldersOf(layout, id)),
  }
}

/** The group in these folders, whoever created it. */
export function cgroupAt(folders: readonly string[]): FoundCgroup {
  return {
    folders,
    pids() {
      return [...new Set(folders.flatMap(pidsIn))].map(Number)
    },
    async remove() {
      // A zombie that its parent has not reaped keeps the group busy for a moment.
      for (let pause = 1; pause <= LAST_PAUSE_MS; pause *= 2) {
        const gone = await Promise.all(folders.map(removed))
        if (!gone.includes(false)) return true
        await sleep(pause)
      }
      return false
    },
  }
}
