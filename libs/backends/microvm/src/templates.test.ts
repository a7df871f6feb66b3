import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SILENT } from '@cofferdam/sandbox/backend'
import { afterEach, expect, it } from 'vitest'
import type { MicrovmEngine } from './engine.ts'
import { imageAt } from './image.ts'
import { createTemplates, machineSize } from './templates.ts'

const LIMITS = { memory_mib: 256, cpus: 1, pids: 64, disk_mib: 64 }
const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

it.each([
  [
    { memory_mib: 32, cpus: 0.1 },
    { memoryMib: 512, vcpus: 1 },
  ],
  [
    { memory_mib: 256, cpus: 1 },
    { memoryMib: 512, vcpus: 1 },
  ],
  [
    { memory_mib: 512, cpus: 1.5 },
    { memoryMib: 1024, vcpus: 2 },
  ],
  [
    { memory_mib: 16_384, cpus: 16 },
    { memoryMib: 32_768, vcpus: 16 },
  ],
])('chooses for %j the size %j', (limits, size) => {
  expect(machineSize({ ...LIMITS, ...limits })).toEqual(size)
})

/** Writes files instead of booting. The first `failures` calls reject with `failure`. */
function scripted(failures = 0, failure: Error = new Error('no boot')) {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-templates-'))
  folders.push(folder)
  const made = { count: 0 }
  const engine: MicrovmEngine = {
    name: 'qemu',
    hardware: false,
    probe: () => Promise.resolve({ ok: true, features: [] }),
    templateKey: () => Promise.resolve('1'),
    createTemplate(spec, into) {
      made.count += 1
      if (made.count <= failures) return Promise.reject(failure)
      const template = { spec, state: join(into, 'state'), memory: join(into, 'memory') }
      for (const path of [template.state, template.memory]) writeFileSync(path, 'as saved')
      return Promise.resolve(template)
    },
    restore: () => Promise.reject(new Error('nothing is restored here')),
    killLeft: () => Promise.resolve(false),
  }
  const digest = '0'.repeat(64)
  const image = imageAt(folder, {
    tag: '0'.repeat(16),
    recipe: 1,
    size: 'slim',
    root_tag: '',
    guest: digest,
    kernel_release: '',
    made_at: '2026-01-01T00:00:00.000Z',
    sha256: { kernel: digest, initramfs: digest, root: digest },
  })
  const clock = { aheadMs: 0 }
  const create = () =>
    createTemplates({
      engine,
      now: () => Date.now() + clock.aheadMs,
      image: () => Promise.resolve(image),
      folder: () => Promise.resolve(folder),
      logger: SILENT,
    })
  return { folder, made, create, clock }
}

it('makes one template of a size, however many ask, and another worker takes it from disk', async () => {
  const { made, create } = scripted()
  const templates = create()
  const got = await Promise.all(Array.from({ length: 5 }, () => templates.get(LIMITS)))
  expect(new Set(got.map(({ memory }) => memory)).size).toBe(1)
  expect(await create().get(LIMITS)).toEqual(got[0])
  expect(made.count).toBe(1)
})

it('leaves nothing of a boot that failed, and tries again', async () => {
  const { folder, made, create } = scripted(1)
  const templates = create()
  await expect(templates.get(LIMITS)).rejects.toThrow('no boot')
  expect(readdirSync(folder)).toEqual([])
  await templates.get(LIMITS)
  expect(made.count).toBe(2)
})

it('says that the disk is full, without a path of this host', async () => {
  const { folder, create } = scripted(1, Object.assign(new Error(`ENOSPC: write /x`), { code: 'ENOSPC' }))
  await expect(create().get(LIMITS)).rejects.toMatchObject({
    code: 'sandbox_open_failed',
    message: expect.stringMatching(/^A template .* No space is left in the runtime folder/) as string,
  })
  expect(readdirSync(folder)).toEqual([])
})

it('removes what a dead worker left of a template, once nobody can still be making it', async () => {
  const { folder, create } = scripted()
  for (const [name, ageS] of [
    ['new-old', 3600],
    ['new-young', 60],
  ] as const) {
    mkdirSync(join(folder, name))
    const then = Date.now() / 1000 - ageS
    utimesSync(join(folder, name), then, then)
  }
  await create().get(LIMITS)
  const left = readdirSync(folder).filter((name) => name.startsWith('new-'))
  expect(left).toEqual(['new-young'])
})

it('removes a template a week after its last use, also of a worker that runs for longer', async () => {
  const { folder, made, create, clock } = scripted()
  const worker = create()
  await worker.get(LIMITS)
  for (let day = 0; day < 10; day += 1) {
    clock.aheadMs += 24 * 3_600_000 + 1000
    await worker.get(LIMITS)
  }
  await create().get({ ...LIMITS, memory_mib: 4096 })
  expect([readdirSync(folder).length, made.count]).toEqual([2, 2])
  clock.aheadMs += 8 * 24 * 3_600_000
  await create().get({ ...LIMITS, memory_mib: 4096 })
  expect([readdirSync(folder).length, made.count]).toEqual([1, 3])
})

it('makes a template anew if its files are not those that were saved', async () => {
  const { made, create } = scripted()
  const { memory } = await create().get(LIMITS)
  writeFileSync(memory, 'poisoned')
  const templates = create()
  const template = await templates.get(LIMITS)
  expect(made.count).toBe(2)
  expect(templates.isUnchanged(template)).toBe(true)
  writeFileSync(memory, 'poisoned again')
  expect(templates.isUnchanged(template)).toBe(false)
  await expect(templates.get(LIMITS)).rejects.toMatchObject({ code: 'sandbox_open_failed' })
  await templates.get(LIMITS)
  expect(made.count).toBe(3)
})
