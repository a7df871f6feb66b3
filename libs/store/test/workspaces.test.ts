/** Workspaces in Postgres: versions, contents, separate tenants, and concurrent commits. */
import { createHash } from 'node:crypto'
import { BOUNDS, type FileFacts } from '@cofferdam/contract'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestStore, type TestStore } from './open-test-store.ts'

let t: TestStore
beforeAll(async () => {
  t = await openTestStore()
  for (const tenant of ['acme', 'globex', 'full', 'racing'])
    await t.store.tenants.create({ tenant_id: tenant }, 'ops')
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
  // Contents are deleted when no path has them any more.
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

/** Gives a tenant workspaces without files, named `w1` and so on. */
const give = (tenant: string, count: number) =>
  t.owner(
    `insert into workspaces (tenant_id, name, version, files)
     select $1, 'w' || n, 1, '[]' from generate_series(1, $2) n`,
    [tenant, count],
  )

test('a tenant with 1,000 workspaces gets no other one, but can use and replace those that it has', async () => {
  const { workspaces } = t.store
  const at = (name: string) => ({ tenantId: 'full', name })
  await give('full', BOUNDS.workspaces)
  expect(await workspaces.list('full')).toHaveLength(1000)
  await expect(workspaces.commit(at('more'), change(0, { a: 'one' }))).rejects.toMatchObject({
    code: 'too_many_workspaces',
    message: expect.stringContaining('1000 workspaces'),
  })
  expect((await workspaces.read(at('more'))).version).toBe(0)
  expect((await workspaces.contents(at('more'), [sha('one')])).size).toBe(0)
  expect(await workspaces.commit(at('w1'), change(1, { a: 'two' }))).toBe(2)
  // The workspace exists, so the limit does not matter. This commit fails because of its version.
  expect(await workspaces.commit(at('w1'), change(0, { a: 'two' }))).toBeNull()
  expect(await workspaces.commit({ tenantId: 'globex', name: 'more' }, change(0, { a: '1' }))).toBe(1)
  await workspaces.remove(at('w2'))
  expect(await workspaces.commit(at('more'), change(0, { a: 'one' }))).toBe(1)
})

test('of several that create the last possible workspace at once, one succeeds', async () => {
  const { workspaces } = t.store
  await give('racing', BOUNDS.workspaces - 1)
  // Commits wait for an advisory lock that the test holds, after everything else in their transactions.
  await t.owner(`
    create function wait_at_gate() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock(1); return null; end $$;
    create constraint trigger gate after insert on workspaces deferrable initially deferred
      for each row when (new.tenant_id = 'racing') execute function wait_at_gate()`)
  const gate = new pg.Client({ connectionString: t.url })
  await gate.connect()
  await gate.query('select pg_advisory_lock(1)')
  const names = ['new-1', 'new-2', 'new-3']
  const ending = Promise.allSettled(
    names.map((name) => workspaces.commit({ tenantId: 'racing', name }, change(0, { a: name }))),
  )
  const waiting = async () =>
    (
      await t.owner(`select from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())`)
    ).rows.length
  try {
    await expect.poll(waiting, { timeout: 60_000 }).toBe(names.length)
  } finally {
    await gate.end()
  }
  const codes = (await ending).map((end) => (end.status === 'fulfilled' ? end.value : end.reason.code))
  expect(codes.toSorted()).toEqual([1, 'too_many_workspaces', 'too_many_workspaces'])
  expect((await t.owner(`select from workspaces where tenant_id = 'racing'`)).rows).toHaveLength(1000)
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
