/** Paused sessions on disk, without a machine. */
import { mkdtempSync, rmSync } from 'node:fs'
import { mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { Writable } from 'node:stream'
import { newExecutionId, newSessionId, type SessionName } from '@cofferdam/contract'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { imageAt } from '../src/image.ts'
import { machineSpecOf, type PausedRecord } from '../src/paused/paused-record.ts'
import { createPausedStore, type Draft, type PausedStore } from '../src/paused/paused-store.ts'

const MANY = 1_000_000
let top = ''
let store: PausedStore
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'cofferdam-paused-store-'))
  store = createPausedStore(async () => top, null)
})
afterEach(() => rmSync(top, { recursive: true }))

const nameOf = (key: string): SessionName => ({ tenantId: 'acme', backend: 'microvm', key })
const writes =
  (text: string) =>
  async (to: Writable): Promise<void> =>
    void to.end(text)
const drafted = (text: string, maxBytes = MANY): Promise<Draft> => store.draft('acme', maxBytes, writes(text))

function recordOf(key: string, draft: Draft, expires_ms = Date.now() + 60_000): PausedRecord {
  const sha256 = 'a'.repeat(64)
  return {
    format: 1,
    tenant_id: 'acme',
    backend: 'microvm',
    key,
    session: {
      id: newSessionId(),
      scope: 'files',
      runs: 1,
      created_ms: 1,
      age_ms: 1,
      idle_ms: 1000,
      execution_id: newExecutionId(),
    },
    slot: { language: 'python', preload: [], limits: { memory_mib: 256, cpus: 1, pids: 64, disk_mib: 64 } },
    machine: {
      image: { kernel: sha256, initramfs: sha256, root: sha256 },
      engine: 'test',
      memory_mib: 512,
      vcpus: 1,
    },
    ready: '{}',
    is_fork: false,
    file_id: draft.fileId,
    bytes: draft.bytes,
    is_sealed: false,
    paused_ms: 1,
    expires_ms,
  }
}

async function paused(key: string, text: string, expiresMs?: number): Promise<PausedRecord> {
  const draft = await drafted(text)
  const record = recordOf(key, draft, expiresMs)
  await store.commit(record, draft)
  await draft.drop()
  return record
}

test('finds what was committed, and nothing of a draft that was not', async () => {
  const draft = await drafted('machine')
  const record = recordOf('desk', draft)
  expect(await store.find(nameOf('desk'))).toBe(null)
  await store.commit(record, draft)
  await draft.drop()
  expect(await store.find(nameOf('desk'))).toEqual(record)
  expect((await buffer(store.read(record))).toString()).toBe('machine')
  expect(await store.list()).toEqual([record])
  expect(await readdir(top)).toHaveLength(1)
})

test('lets nobody but its owner read what it keeps', async () => {
  await paused('desk', 'machine')
  const [folder = ''] = await readdir(top)
  expect((await stat(join(top, folder))).mode & 0o777).toBe(0o700)
  for (const name of ['machine', 'session.json'])
    expect((await stat(join(top, folder, name))).mode & 0o777).toBe(0o600)
})

test('keeps one file for all forks, until the last of them is removed', async () => {
  const draft = await drafted('machine')
  const [one, two] = [recordOf('one', draft), recordOf('two', draft)]
  await store.commit(one, draft)
  await store.commit(two, draft)
  await draft.drop()
  const inodes = await Promise.all(
    (await readdir(top)).map(async (name) => (await stat(join(top, name, 'machine'))).ino),
  )
  expect(new Set(inodes).size).toBe(1)
  expect([await store.remove(nameOf('one')), await store.remove(nameOf('one'))]).toEqual([true, false])
  expect((await buffer(store.read(two))).toString()).toBe('machine')
})

test('puts a session in place of an older one of the same name', async () => {
  await paused('desk', 'old')
  const record = await paused('desk', 'new')
  expect((await buffer(store.read(record))).toString()).toBe('new')
  expect(await store.list()).toEqual([record])
})

test('refuses more bytes than were granted, and leaves nothing of them', async () => {
  await expect(drafted('four', 3)).rejects.toMatchObject({
    code: 'backend_unavailable',
    message: expect.stringContaining('no room') as string,
  })
  expect(await readdir(top)).toEqual([])
})

test('leaves nothing of a save that fails, and says why it failed', async () => {
  const save = async (to: Writable): Promise<void> => {
    to.write('half')
    to.destroy()
    throw new Error('the machine ended')
  }
  await expect(store.draft('acme', MANY, save)).rejects.toThrow('the machine ended')
  expect(await readdir(top)).toEqual([])
})

test('removes what has expired and what a dead worker left, but no pause under way', async () => {
  await paused('expired', 'machine', Date.now() - 1)
  const kept = await paused('kept', 'machine')
  const draft = await drafted('under way')
  await mkdir(join(top, 'new-left'))
  await utimes(join(top, 'new-left'), 1, 1)
  await mkdir(join(top, 'old-left'))
  await store.removeOld()
  expect(await store.list()).toEqual([kept])
  expect((await readdir(top)).filter((name) => !/^[0-9a-f]{32}$/.test(name))).toEqual([`new-${draft.fileId}`])
})

test('refuses a record that it cannot read, and goes on with the others', async () => {
  await paused('broken', 'machine')
  const [folder = ''] = await readdir(top)
  const path = join(top, folder, 'session.json')
  await writeFile(path, (await readFile(path, 'utf8')).replace('"format":1', '"format":2'))
  const kept = await paused('kept', 'machine')
  await expect(store.find(nameOf('broken'))).rejects.toMatchObject({ code: 'conflict' })
  expect(await store.list()).toEqual([kept])
})

test('refuses a machine whose image or kind of host this worker lacks, and says which', async () => {
  const record = await paused('desk', 'machine')
  const sha256 = record.machine.image
  const manifest = {
    tag: 'a'.repeat(16),
    recipe: 1,
    size: 'slim' as const,
    root_tag: '',
    guest: 'a'.repeat(64),
    kernel_release: '6.1',
    made_at: '2026-01-01T00:00:00Z',
    sha256,
  }
  const images = [imageAt('/images/one', manifest)]
  expect(machineSpecOf(record, images, 'test')).toEqual({
    kernel: '/images/one/vmlinux',
    initramfs: '/images/one/initramfs.cpio',
    root: '/images/one/root.erofs',
    memoryMib: 512,
    vcpus: 1,
  })
  const other = { ...manifest, sha256: { ...sha256, root: 'b'.repeat(64) } }
  expect(() => machineSpecOf(record, [imageAt('/images/two', other)], 'test')).toThrow(/image .* is not here/)
  expect(() => machineSpecOf(record, images, 'newer')).toThrow(/another kind of host .*\(test, here: newer\)/)
})
