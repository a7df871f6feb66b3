import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, rmdirSync } from 'node:fs'
import { newSandboxId } from '@cofferdam/contract'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { SlotLimits } from '../warm/index.ts'
import { createCgroups, type Cgroup } from './cgroups.ts'

const LIMITS: SlotLimits = { memory_mib: 64, cpus: 1, pids: 16, disk_mib: 16 }
const HOUR_MS = 3_600_000
const cgroups = createCgroups(null)

describe.skipIf(cgroups === null)('groups that nobody stands for any more', () => {
  const children: ChildProcess[] = []
  const made: Cgroup[] = []
  afterEach(async () => {
    for (const child of children.splice(0)) {
      if (child.signalCode !== null) continue
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    }
    for (const group of made.splice(0)) await group.remove()
    cgroups?.close()
  })

  const groupOf = async (ageMs: number): Promise<Cgroup> => {
    const group = await cgroups?.create(newSandboxId(Date.now() - ageMs), LIMITS, false)
    if (group === undefined) throw new Error('no cgroups here')
    made.push(group)
    return group
  }
  const isThere = (group: Cgroup): boolean[] => group.folders.map((folder) => existsSync(folder))
  const all = (group: Cgroup, there: boolean): boolean[] => group.folders.map(() => there)

  test('go when they are old, also where some controllers have none any more', async () => {
    const [whole, part] = [await groupOf(HOUR_MS), await groupOf(HOUR_MS)]
    rmdirSync(part.folders[0] ?? '')
    await cgroups?.sweep(Date.now())
    expect(isThere(whole)).toEqual(all(whole, false))
    expect(isThere(part)).toEqual(all(part, false))
  })

  test('stay while they are young or a process is in them', async () => {
    const [young, busy] = [await groupOf(0), await groupOf(HOUR_MS)]
    const child = spawn('sleep', ['600'], { stdio: 'ignore' })
    children.push(child)
    await busy.join(child.pid ?? 0)
    await cgroups?.sweep(Date.now())
    expect(isThere(young)).toEqual(all(young, true))
    expect(isThere(busy)).toEqual(all(busy, true))
    expect(busy.pids()).toEqual([child.pid])
  })

  test('are removed though their last process ends half a second late', async () => {
    const group = await groupOf(0)
    const child = spawn('sleep', ['600'], { stdio: 'ignore' })
    children.push(child)
    await group.join(child.pid ?? 0)
    setTimeout(() => child.kill('SIGKILL'), 500)
    expect(await group.remove()).toBe(true)
    expect(isThere(group)).toEqual(all(group, false))
    await vi.waitFor(() => expect(child.signalCode).toBe('SIGKILL'))
  })
})
