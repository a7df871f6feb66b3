/**
 * A host process that cannot be mistaken for another: pids are reused, so a pid is only believed together with its start
 * time and with the host and pid namespace that it was read in. Linux only (/proc).
 */
import { createHash } from 'node:crypto'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

export interface ProcessIdentity {
  pid: number
  /** Clock ticks after boot at which it started (/proc/<pid>/stat, field 22). */
  start: number
  /** Names this boot of this host and our pid namespace. */
  place: string
}

interface Stat {
  state: string
  parent: number
  start: number
}

/** Names the place where our pids mean something. */
export async function thisPlace(): Promise<string> {
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
  const namespace = await readlink('/proc/self/ns/pid')
  return createHash('sha256').update(`${boot.trim()} ${namespace}`).digest('hex').slice(0, 16)
}

async function statOf(pid: number): Promise<Stat | null> {
  try {
    const line = await readFile(`/proc/${pid}/stat`, 'latin1')
    // The command's name may hold anything, also parentheses: fields count from the last one.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
    return { state: fields[0] ?? '', parent: Number(fields[1]), start: Number(fields[19]) }
  } catch {
    return null
  }
}

/** Null when there is no such process (any more). */
export async function identityOf(pid: number, place: string): Promise<ProcessIdentity | null> {
  const stat = await statOf(pid)
  return stat === null ? null : { pid, start: stat.start, place }
}

/** False also for a zombie: it runs nothing, and the init of a pid namespace is one only after all others are gone. */
export async function isRunning(identity: ProcessIdentity, place: string): Promise<boolean> {
  if (identity.place !== place) return false
  const stat = await statOf(identity.pid)
  return stat !== null && stat.start === identity.start && stat.state !== 'Z' && stat.state !== 'X'
}

/** Sends SIGKILL to exactly that process; does nothing when it is gone. */
export async function killExactly(identity: ProcessIdentity, place: string): Promise<void> {
  if (!(await isRunning(identity, place))) return
  signal(identity.pid)
}

/** Resolves true when the process runs no more, false after `timeoutMs`. */
export async function waitGone(
  identity: ProcessIdentity,
  place: string,
  timeoutMs: number,
): Promise<boolean> {
  const end = performance.now() + timeoutMs
  for (let pause = 1; ; pause = Math.min(pause * 2, 20)) {
    if (!(await isRunning(identity, place))) return true
    if (performance.now() > end) return false
    await sleep(pause)
  }
}

/**
 * Kills all descendants of a child subreaper, then the subreaper itself. Children of what dies become children of the
 * subreaper, so the search repeats until it finds none; the subreaper goes last, else its orphans would leave the tree. It is stopped
 * first, so that it reports no end of a program that we killed. Resolves true when proven gone.
 */
export async function killTree(root: ProcessIdentity, place: string, timeoutMs: number): Promise<boolean> {
  const end = performance.now() + timeoutMs
  await freeze(root, place, end)
  for (let pause = 1; await isRunning(root, place); pause = Math.min(pause * 2, 20)) {
    const below = await descendants(root.pid)
    if (below.length === 0) break
    for (const pid of below) signal(pid)
    if (performance.now() > end) return false
    await sleep(pause)
  }
  await killExactly(root, place)
  return waitGone(root, place, Math.max(0, end - performance.now()))
}

/** Stops a process and waits until it is: only then is the list of its children the last word, for it forks no more. */
async function freeze(identity: ProcessIdentity, place: string, end: number): Promise<void> {
  if (await isRunning(identity, place)) signal(identity.pid, 'SIGSTOP')
  while (await isRunning(identity, place)) {
    if ((await statOf(identity.pid))?.state === 'T' || performance.now() > end) return
    await sleep(1)
  }
}

/** Name of the variable that the first process of a sandbox is started with; programs do not get it. */
export const MARK = 'COFFERDAM_SANDBOX'

/**
 * Processes that were started for a sandbox and whose pid nobody wrote down: the worker died while it opened one. The mark
 * is an unguessable id, so a program that carries one on purpose only names itself.
 */
export async function findMarked(sandboxId: string, place: string): Promise<ProcessIdentity[]> {
  const found: ProcessIdentity[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const text = await readFile(`/proc/${name}/environ`, 'latin1').catch(() => '')
    if (!text.split('\0').includes(`${MARK}=${sandboxId}`)) continue
    const identity = await identityOf(Number(name), place)
    if (identity !== null) found.push(identity)
  }
  return found
}

/** Living descendants of a process, by a walk over /proc. */
export async function descendants(root: number): Promise<number[]> {
  const children = new Map<number, number[]>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const pid = Number(name)
    const stat = await statOf(pid)
    if (stat === null || stat.state === 'Z' || stat.state === 'X') continue
    const siblings = children.get(stat.parent)
    if (siblings === undefined) children.set(stat.parent, [pid])
    else siblings.push(pid)
  }
  const found: number[] = []
  const waiting = [root]
  for (let pid = waiting.pop(); pid !== undefined; pid = waiting.pop()) {
    const below = children.get(pid) ?? []
    found.push(...below)
    waiting.push(...below)
  }
  return found
}

function signal(pid: number, name: 'SIGKILL' | 'SIGSTOP' = 'SIGKILL'): void {
  try {
    process.kill(pid, name)
  } catch {
    // Gone meanwhile.
  }
}
