import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createSlotUids } from './slot-uids.ts'

const MINUTE_MS = 60_000
let runtimeDir: string
beforeAll(() => {
  runtimeDir = mkdtempSync(join(tmpdir(), 'cofferdam-uids-'))
})
afterAll(() => rmSync(runtimeDir, { recursive: true, force: true }))

it('frees only the uids of slots whose worker died before it freed them', async () => {
  const uids = createSlotUids(runtimeDir, { first: 1_900_000_000, count: 4 })
  const now = Date.now()
  const [lost, waiting, starting] = [60, 60, 1].map((age) => newSandboxId(now - age * MINUTE_MS))
  if (lost === undefined || waiting === undefined || starting === undefined) throw new Error('three ids')
  for (const id of [lost, waiting, starting]) uids.take(id)
  // A waiting slot of another backend on this host.
  mkdirSync(join(runtimeDir, 'sandboxes', 'process', 'wrk_other', waiting), { recursive: true })
  // This process has that uid, so something of the uid's slot is still alive.
  const alive = newSandboxId(now - 60 * MINUTE_MS)
  symlinkSync(alive, join(runtimeDir, 'uids', String(process.getuid?.())))
  expect(await uids.sweep(now)).toBe(1)
  expect([lost, waiting, starting].map((id) => uids.of(id) === null)).toEqual([true, false, false])
  expect(uids.of(alive)).toBe(process.getuid?.())
  expect(readdirSync(join(runtimeDir, 'uids'))).toHaveLength(3)
  expect(await uids.sweep(now)).toBe(0)
})
