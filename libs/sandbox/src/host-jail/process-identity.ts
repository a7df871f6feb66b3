/**
 * Identifies a host process safely: pids are reused, so a pid counts only together with its start time and
 * the host and pid namespace in which it was read. Linux only (/proc).
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

export interface ProcessIdentity {
  pid: number
  /** Clock ticks after boot at which the process started (/proc/<pid>/stat, field 22). */
  start: number
  /** Names this boot of this host and our pid namespace. */
  place: string
}

interface Stat {
  state: string
  parent: number
  start: number
  threads: number
}

/** Identifies this boot of this host and our pid namespace, since pids mean nothing elsewhere. */
export async function thisPlace(): Promise<string> {
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
  const namespace = await readlink('/proc/self/ns/pid')
  return createHash('sha256').update(`${boot.trim()} ${namespace}`).digest('hex').slice(0, 16)
}

/**
 * Synchronous, because that takes 15 µs instead of ten times as long, and leaves no gap between the look and
 * a kill.
 */
function statOf(pid: number): Stat | null {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The command's name may contain anything, even parentheses, so count fields from the last one.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
    return {
      state: fields[0] ?? '',
      parent: Number(fields[1]),
      start: Number(fields[19]),
      threads: Number(fields[17]),
    }
  } catch {
    return null
  }
}

/** Null if the process does not exist. */
export function identityOf(pid: number, place: string): ProcessIdentity | null {
  const stat = statOf(pid)
  return stat === null ? null : { pid, start: stat.start, place }
}

/**
 * The agent that our child reported: the child itself or its child. Null if it is gone, or if the pid belongs
 * to another process. For example, a pid from an inner namespace names somebody else's process out here,
 * which we must not touch.
 */
export function agentOf(child: number | undefined, pid: number, place: string): ProcessIdentity | null {
  const stat = statOf(pid)
  if (stat === null || (pid !== child && stat.parent !== child)) return null
  return { pid, start: stat.start, place }
}

/**
 * Also false for a zombie. The init of a pid namespace becomes a zombie only after all its other processes
 * are gone.
 */
export function isRunning(identity: ProcessIdentity, place: string): boolean {
  if (identity.place !== place) return false
  const stat = statOf(identity.pid)
  return stat !== null && stat.start === identity.start && runs(stat)
}

/** A process whose first thread has ended also shows as a zombie, but its other threads run. */
const runs = ({ state, threads }: Stat): boolean => (state !== 'Z' && state !== 'X') || threads > 1

/** Sends SIGKILL to exactly that process; does nothing if it is gone. */
export function killExactly(identity: ProcessIdentity, place: string): void {
  if (!isRunning(identity, place)) return
  signal(identity.pid)
}

/** True when the process has ended, false after `timeoutMs`. */
export async function waitGone(
  identity: ProcessIdentity,
  place: string,
  timeoutMs: number,
): Promise<boolean> {
  const end = performance.now() + timeoutMs
  for (let pause = 1; ; pause = Math.min(pause * 2, 20)) {
    if (!isRunning(identity, place)) return true
    if (performance.now() > end) return false
    await sleep(pause)
  }
}

/**
 * Kills all descendants of a child subreaper, then the subreaper. Orphans become children of the subreaper,
 * so the search repeats until it finds none. If the subreaper died first, orphans would leave the tree. It is
 * stopped (SIGSTOP) first, so that it does not report the end of a killed program. True when all are proven
 * gone.
 */
export async function killTree(root: ProcessIdentity, place: string, timeoutMs: number): Promise<boolean> {
  const end = performance.now() + timeoutMs
  await freeze(root, place, end)
  for (let pause = 1; isRunning(root, place); pause = Math.min(pause * 2, 20)) {
    const below = descendants(root.pid)
    if (below.length === 0) break
    for (const pid of below) signal(pid)
    if (performance.now() > end) return false
    await sleep(pause)
  }
  killExactly(root, place)
  return waitGone(root, place, Math.max(0, end - performance.now()))
}

/** Stops a process and waits for that. Only then is its list of children final. */
async function freeze(identity: ProcessIdentity, place: string, end: number): Promise<void> {
  if (isRunning(identity, place)) signal(identity.pid, 'SIGSTOP')
  while (isRunning(identity, place)) {
    if (statOf(identity.pid)?.state === 'T' || performance.now() > end) return
    await sleep(1)
  }
}

/** Environment variable of a sandbox's first process; programs do not get it. */
export const MARK = 'COFFERDAM_SANDBOX'

/**
 * Finds processes of a sandbox without a record, because its worker died during the open. The mark is an
 * unguessable ID, so a program can only mark itself.
 */
export async function findMarked(sandboxId: string, place: string): Promise<ProcessIdentity[]> {
  const found: ProcessIdentity[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const text = await readFile(`/proc/${name}/environ`, 'latin1').catch(() => '')
    if (!text.split('\0').includes(`${MARK}=${sandboxId}`)) continue
    const identity = identityOf(Number(name), place)
    if (identity !== null) found.push(identity)
  }
  return found
}

/** Living processes whose real uid is `uid`, from /proc. */
export function processesOf(uid: number): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const status = readFileSync(`/proc/${name}/status`, 'latin1')
      return new RegExp(`^Uid:\\t${uid}\\t`, 'm').test(status) && isAlive(Number(name)) ? [Number(name)] : []
    } catch {
      return []
    }
  })
}

/** Living descendants, from the kernel's lists of children or by a walk over /proc. */
export const descendants = (root: number): number[] => allBelow(root, isAlive)

/** Includes zombies. Parents come before their children. */
export const descendantsAndZombies = (root: number): number[] => allBelow(root, () => true)

function allBelow(root: number, counts: (pid: number) => boolean): number[] {
  const children = hasChildLists(root) ? childrenOf : childrenByWalk()
  const found: number[] = []
  const waiting = [root]
  for (let pid = waiting.pop(); pid !== undefined; pid = waiting.pop()) {
    const next = children(pid).filter(counts)
    found.push(...next)
    waiting.push(...next)
  }
  return found
}

function isAlive(pid: number): boolean {
  const stat = statOf(pid)
  return stat !== null && runs(stat)
}

/**
 * Whether the kernel lists children (CONFIG_PROC_CHILDREN, which distributions set). False also for a process
 * that has ended, which is harmless: it has no children.
 */
function hasChildLists(pid: number): boolean {
  try {
    readFileSync(`/proc/${pid}/task/${pid}/children`)
    return true
  } catch {
    return false
  }
}

/** Reads the lists of all threads, because a child is listed at the thread that forked it. */
function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').split(' ').filter(Boolean).map(Number),
    )
  } catch {
    return []
  }
}

function childrenByWalk(): (pid: number) => number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const pid = Number(name)
    const stat = statOf(pid)
    if (stat === null) continue
    const siblings = children.get(stat.parent)
    if (siblings === undefined) children.set(stat.parent, [pid])
    else siblings.push(pid)
  }
  return (pid) => children.get(pid) ?? []
}

/** Sends a signal, by default SIGKILL; ignores a missing process. */
export function signal(pid: number, name: 'SIGKILL' | 'SIGSTOP' = 'SIGKILL'): void {
  try {
    process.kill(pid, name)
  } catch {
    // The process has already ended.
  }
}
