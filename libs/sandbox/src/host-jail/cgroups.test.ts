import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, readlinkSync, rmdirSync } from 'node:fs'
import { newSandboxId } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterEach, expect, test, vi } from 'vitest'
import type { SlotLimits } from '../warm/index.ts'
import { createCgroups, type Cgroup } from './cgroups.ts'

const LIMITS: SlotLimits = { memory_mib: 64, cpus: 1, pids: 16, disk_mib: 16 }
/**
 * Half of the age at which a sweep removes an empty group. Parallel sweeps spare a group of this age.
 * `sweepLater` removes it, because it pretends that HALF_MS and a minute have passed. Groups of other tests
 * are too young for it.
 */
const HALF_MS = 300_000
const cgroups = createCgroups(null)

needs('cgroups').describe('cgroups of slots', () => {
  const children: ChildProcess[] = []
  const made: Cgroup[] = []
  afterEach(async () => {
    for (const child of children.splice(0)) {
      if (child.signalCode !== null) continue
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    }
    for (const group of made.splice(0)) {
      group.close()
      await group.remove()
    }
    cgroups?.close()
  })

  const groupOf = async (ageMs: number): Promise<Cgroup> => {
    const group = await cgroups?.create(newSandboxId(Date.now() - ageMs), LIMITS, false)
    if (group === undefined) throw new Error('no cgroups here')
    made.push(group)
    return group
  }
  const sweepLater = async (): Promise<void> => void (await cgroups?.sweep(Date.now() + HALF_MS + 60_000))
  const isThere = (group: Cgroup): boolean[] => group.folders.map((folder) => existsSync(folder))
  const all = (group: Cgroup, there: boolean): boolean[] => group.folders.map(() => there)

  test('are removed if they are old and unused, even if some controllers have lost theirs', async () => {
    const [whole, part] = [await groupOf(HALF_MS), await groupOf(HALF_MS)]
    rmdirSync(part.folders[0] ?? '')
    await sweepLater()
    expect(isThere(whole)).toEqual(all(whole, false))
    expect(isThere(part)).toEqual(all(part, false))
  })

  test('are kept while they are young or contain a process', async () => {
    const [young, busy] = [await groupOf(0), await groupOf(HALF_MS)]
    const child = spawn('sleep', ['600'], { stdio: 'ignore' })
    children.push(child)
    await busy.join(child.pid ?? 0)
    await sweepLater()
    expect(isThere(young)).toEqual(all(young, true))
    expect(isThere(busy)).toEqual(all(busy, true))
    expect(busy.pids()).toEqual([child.pid])
  })

  test('are removed although their last process ends a moment late', async () => {
    const group = await groupOf(0)
    const child = spawn('sleep', ['600'], { stdio: 'ignore' })
    children.push(child)
    await group.join(child.pid ?? 0)
    // End the process after the first attempts to remove the group, and long before the last.
    setTimeout(() => child.kill('SIGKILL'), 50)
    expect(await group.remove()).toBe(true)
    expect(isThere(group)).toEqual(all(group, false))
    await vi.waitFor(() => expect(child.signalCode).toBe('SIGKILL'), 15_000)
  })

  test('read fresh counters every time, from files that stay open until they are closed', async () => {
    const group = await groupOf(0)
    const child = spawn('sh', ['-c', 'read go; while :; do :; done'], { stdio: ['pipe', 'ignore', 'ignore'] })
    children.push(child)
    await group.join(child.pid ?? 0)
    const before = group.read()
    child.stdin.write('go\n')
    await vi.waitFor(() => expect(group.read().cpuUs).toBeGreaterThan(before.cpuUs + 1000), 15_000)
    expect(openFilesOf(group)).not.toEqual([])
    group.close()
    expect(openFilesOf(group)).toEqual([])
    expect(group.read()).toMatchObject({ cpuUs: 0, memoryPeak: 0, oomKills: 0, pidsHits: 0 })
    expect(openFilesOf(group)).toEqual([])
  })

  test('count each process once, and immediately', async () => {
    const group = await groupOf(0)
    expect(group.countPids()).toBe(0)
    for (let n = 1; n <= 2; n++) {
      const child = spawn('sleep', ['600'], { stdio: 'ignore' })
      children.push(child)
      await group.join(child.pid ?? 0)
      expect(group.countPids()).toBe(n)
      expect([group.holdsAtMost(n - 1), group.holdsAtMost(n)]).toEqual([false, true])
    }
  })

  test('count a process with many threads once', async () => {
    const group = await groupOf(0)
    const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], {
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    children.push(child)
    await group.join(child.pid ?? 0)
    const tasks = (): number => Math.max(...group.folders.map((folder) => countOf(folder)))
    await vi.waitFor(() => expect(tasks()).toBeGreaterThan(1), 15_000)
    expect([group.holdsAtMost(0), group.holdsAtMost(1)]).toEqual([false, true])
  })
})

/** Number of tasks in the folder's cgroup. 0 if its controller does not count them. */
const countOf = (folder: string): number =>
  existsSync(`${folder}/pids.current`) ? Number(readFileSync(`${folder}/pids.current`, 'latin1')) : 0

/** Files of the group that this process has open. */
function openFilesOf(group: Cgroup): string[] {
  const paths = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return '' // The listing's own.
    }
  })
  return paths.filter((path) => group.folders.some((folder) => path.startsWith(`${folder}/`)))
}
