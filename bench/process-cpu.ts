/** CPU time of processes: what the load of others on the machine disturbs least. */
import { readdirSync, readFileSync } from 'node:fs'

/** Of /proc: USER_HZ, which is 100 on every Linux that Node.js runs on. */
const TICK_MS = 10

interface Times {
  parent: number
  ownMs: number
  /** Of children that ended. */
  reapedMs: number
}

/** CPU milliseconds of a process by itself. Throws where there is no /proc. */
export const cpuMsOf = (pid: number): number => timesOf(pid).ownMs

/** The same with its children, those that ended too. */
export function cpuMsOfFamily(pid: number): number {
  const { ownMs, reapedMs } = timesOf(pid)
  const children = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => orNothing(() => timesOf(Number(name))))
    .filter(({ parent }) => parent === pid)
  return children.reduce((sum, child) => sum + child.ownMs, ownMs + reapedMs)
}

function timesOf(pid: number): Times {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The command stands in brackets and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ms = (...at: number[]): number => at.reduce((sum, i) => sum + Number(fields[i]) * TICK_MS, 0)
  return { parent: Number(fields[1]), ownMs: ms(11, 12), reapedMs: ms(13, 14) }
}

/** A process may end while it is looked at. */
function orNothing<T>(look: () => T): T[] {
  try {
    return [look()]
  } catch {
    return []
  }
}
