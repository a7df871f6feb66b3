/** Workspaces in Postgres: versions, contents, separate tenants, and concurrent commits. */
import { createHash } from 'node:crypto'
import type { FileFacts } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestStore, type TestStore } from './open-test-store.ts'

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
  for (const tenant of ['acme', 'globex']) await t.store.tenants.create({ tenant_id: tenant }, 'ops')
})
afterAll(() => t.close())

const sha = (text: string): string => createHash('sha256').update(text).digest('hex')

function change(expectedVersion: number, files: Record<string, string>) {
  const manifest = new Map<string, FileFacts>(
    Object.entries(files).map(([path, text]) => [
      path,
      { sha256: sha(text), size: text.length, mode: 0o644 },
    ]),
  )
  const contents = new Map<string, Uint8Array>(
    Object.values(files).map((text) => [sha(text), Buffer.from(text)]),
  )
  return { expectedVersion, manifest, contents }
}

test('a workspace begins at version 0, and each commit adds one', async () => {
  const { workspaces } = t.store
  const at = { tenantId: 'acme', name: 'first' }
  expect(await workspaces.read(at)).toEqual({ version: 0, manifest: new Map() })
  expect(await workspaces.commit(at, change(0, { a: 'one', b: 'one', __proto__x: 'p' }))).toBe(1)
  expect(await workspaces.commit(at, change(0, { a: 'late' }))).toBeNull()
  expect(await workspaces.commit(at, change(1, { a: 'two' }))).toBe(2)
  expect(await workspaces.commit(at, change(1, { a: 'late' }))).toBeNull()
  const { version, manifest } = await workspaces.read(at)
  expect([version, [...manifest]]).toEqual([2, [['a', { sha256: sha('two'), size: 3, mode: 0o644 }]]])
  // Contents without a path are deleted.
  const contents = await workspaces.contents(at, [sha('one'), sha('two')])
  expect([...contents].map(([hash, bytes]) => [hash, Buffer.from(bytes).toString()])).toEqual([
    [sha('two'), 'two'],
  ])
  expect(await workspaces.list('acme')).toMatchObject([{ name: 'first', version: 2, files: 1, bytes: 3 }])
})

test('a recreated workspace is not taken for the one that was read, although it starts at 1', async () => {
  const { workspaces } = t.store
  const at = { tenantId: 'acme', name: 'again' }
  await workspaces.commit(at, change(0, { b: 'old', a: 'old' }))
  const { version, manifest: read } = await workspaces.read(at)
  await workspaces.remove(at)
  await workspaces.commit(at, change(0, { b: 'new', a: 'old' }))
  const late = change(version, { a: 'late' })
  expect(await workspaces.commit(at, { ...late, expectedManifest: read })).toBeNull()
  const { manifest: now } = await workspaces.read(at)
  expect([...now.keys()]).toEqual(['b', 'a'])
  expect(await workspaces.commit(at, { ...late, expectedManifest: now })).toBe(2)
})

test('a commit that names missing contents changes nothing', async () => {
  const at = { tenantId: 'acme', name: 'whole' }
  const { manifest } = change(0, { a: 'missing' })
  await expect(
    t.store.workspaces.commit(at, { expectedVersion: 0, manifest, contents: new Map() }),
  ).rejects.toMatchObject({ code: 'internal' })
  expect((await t.store.workspaces.read(at)).version).toBe(0)
})

test('tenants have their own workspaces', async () => {
  const { workspaces } = t.store
  await workspaces.commit({ tenantId: 'acme', name: 'same' }, change(0, { a: 'acme' }))
  const globex = { tenantId: 'globex', name: 'same' }
  expect((await workspaces.read(globex)).version).toBe(0)
  expect((await workspaces.contents(globex, [sha('acme')])).size).toBe(0)
  expect(await workspaces.remove(globex)).toBe(false)
  expect(await workspaces.remove({ tenantId: 'acme', name: 'same' })).toBe(true)
  await expect(
    workspaces.commit({ tenantId: 'nobody', name: 'x' }, change(0, { a: 'x' })),
  ).rejects.toMatchObject({ code: 'not_found' })
})

test('one of several commits at the same version wins, and none is lost when each is repeated', async () => {
  const { workspaces } = t.store
  const at = { tenantId: 'acme', name: 'busy' }
  const write = async (own: string): Promise<number> => {
    for (let tries = 1; ; tries += 1) {
      const { version, manifest } = await workspaces.read(at)
      const { manifest: added, contents } = change(version, { [own]: own })
      const merged = new Map([...manifest, ...added])
      if ((await workspaces.commit(at, { expectedVersion: version, manifest: merged, contents })) !== null)
        return tries
    }
  }
  const names = Array.from({ length: 8 }, (_, index) => `f${index}`)
  await Promise.all(names.map(write))
  const { version, manifest } = await workspaces.read(at)
  expect([version, [...manifest.keys()].toSorted()]).toEqual([8, names])
})
