/**
 * The end of a machine, by its worker or by another one:
 *
 *   SIGKILL by pid and start time → cgroup empty → cgroup removed → jail removed → user free again
 *
 * The cgroup is the proof: the kernel counts its processes, and none of them can leave it. Links in the jail
 * are removed and never followed. Every step may be repeated.
 */
import { readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import { killExactly, removeTree, thisPlace, type ProcessIdentity } from '@cofferdam/sandbox/backend'
import type { Jail } from './jail.ts'
import type { JailUids } from './uids.ts'

const GONE_MS = 10_000

/** Resolves when the kernel counts no process of the machine. Throws `sandbox_lost` while one is left. */
export async function stopMachine(jail: Jail, vmm: ProcessIdentity | null): Promise<void> {
  if (vmm !== null) killExactly(vmm, await thisPlace())
  await emptyGroup(jail.cgroup)
}

/**
 * Stops the machine. Once no process is left, removes its cgroup and jail, and frees its user. True if it had
 * a cgroup or a user.
 */
export async function endMachine(jail: Jail, vmm: ProcessIdentity | null, uids: JailUids): Promise<boolean> {
  await stopMachine(jail, vmm)
  const hadGroup = await removeGroup(jail.cgroup)
  await removeJail(jail.folder)
  const hadUser = await uids.release(jail.id)
  return hadGroup || hadUser
}

/** The machine’s worker and a sweeping one may remove the jail at the same time, so ENOENT is no failure. */
async function removeJail(folder: string): Promise<void> {
  for (;;)
    try {
      return await removeTree(folder)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
}

/** Kills whoever is in the group until the kernel says that nobody is. */
async function emptyGroup(cgroup: string): Promise<void> {
  const until = performance.now() + GONE_MS
  for (let pause = 1; await isPopulated(cgroup); pause = Math.min(pause * 2, 50)) {
    // Absent before Linux 5.14.
    await writeFile(join(cgroup, 'cgroup.kill'), '1').catch(() => killEach(cgroup))
    if (performance.now() > until)
      throw new CofferdamError('sandbox_lost', `microvm: processes are left in ${cgroup}.`)
    await sleep(pause)
  }
}

async function killEach(cgroup: string): Promise<void> {
  for (const line of (await text(join(cgroup, 'cgroup.procs'))).split('\n')) {
    const pid = Number(line)
    // 0 is a process of a namespace that we do not see.
    if (pid < 2) continue
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended.
    }
  }
}

/** False also for a group that does not exist. */
const isPopulated = async (cgroup: string): Promise<boolean> =>
  /^populated 1$/m.test(await text(join(cgroup, 'cgroup.events')))

/**
 * True if there was one. The last process may be a zombie for a moment longer, so a busy group is tried
 * again.
 */
async function removeGroup(cgroup: string): Promise<boolean> {
  const until = performance.now() + GONE_MS
  for (let pause = 1; ; pause = Math.min(pause * 2, 50)) {
    try {
      await rmdir(cgroup)
      return true
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOENT') return false
      if (code !== 'EBUSY' || performance.now() > until) throw error
    }
    await sleep(pause)
  }
}

const text = (path: string): Promise<string> => readFile(path, 'latin1').catch(() => '')

/** Whether the host’s kernel killed a process of the group for memory. */
export const wasKilledForMemory = async (cgroup: string): Promise<boolean> =>
  /^oom_kill [1-9]/m.test(await text(join(cgroup, 'memory.events')))

/** Processes of the group, as this host counts them. */
export const processesIn = async (cgroup: string): Promise<number[]> =>
  (await text(join(cgroup, 'cgroup.procs')))
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [Number(line)]))
