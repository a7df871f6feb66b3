/**
 * CPU time of a sandbox's processes without a cgroup. The agent reports only that of reaped processes, so
 * this reads the time of all others from /proc.
 */
import { readFileSync } from 'node:fs'
import { descendantsAndZombies } from './process-identity.ts'

/** A tick of /proc/<pid>/stat: USER_HZ is 100 on every Linux that Node runs on. */
const TICK_MS = 10

/**
 * CPU time of all processes below `agent` and of their reaped children. Children whose parent ignores SIGCHLD
 * are missing, because nobody waits for them.
 */
export function treeCpuMs(agent: number): number {
  // Read parents before children. A child that is reaped in between is then missed this time, but never
  // counted twice.
  const waited = timesOf(agent).waited
  const below = descendantsAndZombies(agent).map(timesOf)
  return below.reduce((sum, each) => sum + each.own + each.waited, waited)
}

function timesOf(pid: number): { own: number; waited: number } {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // proc(5), fields 14 to 17: user and system time, its own and that of children it waited for.
    const fields = line
      .slice(line.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 15)
    const [user = 0, system = 0, usersWaited = 0, systemsWaited = 0] = fields.map(Number)
    return { own: (user + system) * TICK_MS, waited: (usersWaited + systemsWaited) * TICK_MS }
  } catch {
    return { own: 0, waited: 0 }
  }
}
