/** CPU time of processes, which other processes on the machine disturb least. */
import { readdirSync, readFileSync } from 'node:fs'

/** The clock tick of /proc: USER_HZ is 100 on every Linux that Node.js runs on. */
const TICK_MS = 10

interface Times {
  parent: number
  ownMs: number
  /** CPU time of ended children. */
  reapedMs: number
}

/** CPU milliseconds of a process without its children. Throws without /proc. */
export const cpuMsOf = (pid: number): number => timesOf(pid).ownMs

/** CPU milliseconds of the ended children of a process, including the ended children of these. */
export const reapedCpuMsOf = (pid: number): number => timesOf(pid).reapedMs

/** The CPU milliseconds of a process and its children, including ended ones. */
export function cpuMsOfFamily(pid: number): number {
  const { ownMs, reapedMs } = timesOf(pid)
  const children = allProcesses().filter(({ parent }) => parent === pid)
  return children.reduce((sum, child) => sum + child.ownMs, ownMs + reapedMs)
}

/** CPU milliseconds of all processes below a process, at any depth, including ended ones. */
export function cpuMsBelow(pid: number): number {
  const all = allProcesses()
  const below = (parent: number): number =>
    all
      .filter((one) => one.parent === parent)
      .reduce((sum, one) => sum + one.ownMs + one.reapedMs + below(one.pid), 0)
  return timesOf(pid).reapedMs + below(pid)
}

function allProcesses(): (Times & { pid: number })[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => orNothing(() => ({ ...timesOf(Number(name)), pid: Number(name) })))
}

function timesOf(pid: number): Times {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The command is in brackets and can contain anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ms = (...at: number[]): number => at.reduce((sum, i) => sum + Number(fields[i]) * TICK_MS, 0)
  return { parent: Number(fields[1]), ownMs: ms(11, 12), reapedMs: ms(13, 14) }
}

/** A process can end while it is read. */
function orNothing<T>(look: () => T): T[] {
  try {
    return [look()]
  } catch {
    return []
  }
}
