/** Finds out by a trial where this process may create cgroups, and with which controllers. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Controllers of sandboxes; all four are needed. */
export type Controller = 'memory' | 'pids' | 'cpu' | 'cpuacct'

export interface CgroupLayout {
  version: 'v1' | 'v2'
  /** Our folder per controller; v2 has one for all. */
  folder: Record<Controller, string>
}

/** Null if no cgroup with memory, pids and cpu can be created. `parent`: a delegated v2 group or null. */
export const findCgroupLayout = (parent: string | null): CgroupLayout | null => v2Layout(parent) ?? v1Layout()

const read = (path: string): string => readFileSync(path, 'utf8').trim()

function ownGroups(): string[] {
  try {
    return read('/proc/self/cgroup').split('\n')
  } catch {
    return []
  }
}

function v1Layout(): CgroupLayout | null {
  const lines = ownGroups()
  const make = (controller: string): string | null => {
    const line = lines.find((l) => l.split(':')[1]?.split(',').includes(controller))
    if (line === undefined) return null
    const parent = join('/sys/fs/cgroup', controller, line.split(':').slice(2).join(':'))
    const base = join(parent, 'cofferdam')
    try {
      // Check first: without a mounted cgroup, Node's recursive mkdir never ends, because each level answers
      // ENOENT and the one above it EEXIST.
      read(join(parent, 'cgroup.procs'))
      mkdirSync(base, { recursive: true })
      read(join(base, 'cgroup.procs'))
      writeFileSync(join(base, 'notify_on_release'), '0')
      return base
    } catch {
      return null
    }
  }
  const [memory, pids, cpu, cpuacct] = [make('memory'), make('pids'), make('cpu'), make('cpuacct')]
  if (memory === null || pids === null || cpu === null || cpuacct === null) return null
  return { version: 'v1', folder: { memory, pids, cpu, cpuacct } }
}

function v2Layout(parent: string | null): CgroupLayout | null {
  const own = ownGroups()
    .find((l) => l.startsWith('0::'))
    ?.slice(3)
  // The root group may have processes and controllers at once; a delegated group must have no processes.
  const candidates = parent === null ? ['/sys/fs/cgroup', join('/sys/fs/cgroup', own ?? '')] : [parent]
  for (const candidate of candidates) {
    try {
      const controllers = read(join(candidate, 'cgroup.controllers')).split(' ')
      if (!['memory', 'pids', 'cpu'].every((c) => controllers.includes(c))) continue
      const enabled = '+memory +pids +cpu'
      writeFileSync(join(candidate, 'cgroup.subtree_control'), enabled)
      const base = join(candidate, 'cofferdam')
      mkdirSync(base, { recursive: true })
      writeFileSync(join(base, 'cgroup.subtree_control'), enabled)
      return {
        version: 'v2',
        folder: { memory: base, pids: base, cpu: base, cpuacct: base },
      }
    } catch {
      continue
    }
  }
  return null
}
