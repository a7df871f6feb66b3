/** Copies a workspace into a sandbox and back, while other replicas use the same workspace. */
import { carryBack, carryIn, compileRules, EMPTY_MANIFEST, manifestOf } from '@cofferdam/workspace-sync'
import { expect, onTestFinished, test, vi } from 'vitest'
import { memoryStore, type MemoryStore } from './memory-store.ts'

const workspace = { tenantId: 't', name: 'w' }
const rules = compileRules()

/** An execution that gets the stored files and leaves `after`. */
async function execution(store: MemoryStore, after: Record<string, string>, job: string) {
  const { manifest: base } = await carryIn(store, workspace, rules, EMPTY_MANIFEST)
  const files = Object.entries(after).map(([path, text]) => ({ path, bytes: Buffer.from(text) }))
  return () =>
    carryBack(store, {
      workspace,
      base,
      sandbox: manifestOf(files),
      bytesOf: (path) => Buffer.from(after[path] ?? ''),
      rules,
      onConflict: 'keep-both',
      job,
    })
}

test('gives a fresh sandbox all files that the rules allow, and a used sandbox the differences', async () => {
  const store = memoryStore({ a: '1', b: '2', '.env': 'SECRET=1' })
  const fresh = await carryIn(store, workspace, rules, EMPTY_MANIFEST)
  expect(fresh.files.map(({ path, bytes }) => [path, Buffer.from(bytes).toString()])).toEqual([
    ['a', '1'],
    ['b', '2'],
  ])
  const used = await carryIn(
    store,
    workspace,
    rules,
    manifestOf([
      { path: 'a', bytes: Buffer.from('1') },
      { path: 'gone', bytes: Buffer.from('') },
    ]),
  )
  expect(used.files.map(({ path }) => path)).toEqual(['b'])
  expect(used.removed).toEqual(['gone'])
})

test('merges the changes of two concurrent executions to different files', async () => {
  const store = memoryStore({ a: '1', b: '1' })
  const first = await execution(store, { a: 'first', b: '1' }, 'j1')
  const second = await execution(store, { a: '1', b: 'second' }, 'j2')
  // The second execution commits between the first one's read and its commit.
  store.contend = async () => void (await second())
  const report = await first()
  expect(store.texts()).toEqual({ a: 'first', b: 'second' })
  expect(report).toMatchObject({ status: 'merged', version: 3, applied: [{ path: 'a', change: 'written' }] })
})

test('keeps both versions when two concurrent executions change the same file', async () => {
  const store = memoryStore({ a: '1' })
  const first = await execution(store, { a: 'first' }, 'j1')
  const second = await execution(store, { a: 'second' }, 'j2')
  store.contend = async () => void (await second())
  expect(await first()).toMatchObject({ conflicted: [{ path: 'a', kept_as: 'a.conflict-j1' }] })
  expect(store.texts()).toEqual({ a: 'second', 'a.conflict-j1': 'first' })
})

test('merges with a recreated workspace of the same version instead of overwriting it', async () => {
  const store = memoryStore({ a: '1', b: '1' })
  const end = await execution(store, { a: 'mine', b: '1' }, 'j1')
  store.contend = async () => store.remake({ b: 'theirs', c: 'theirs' })
  expect(await end()).toMatchObject({ status: 'merged', version: 2 })
  expect(store.texts()).toEqual({ 'a.conflict-j1': 'mine', b: 'theirs', c: 'theirs' })
})

test('loses no change when twelve replicas merge into one workspace', async () => {
  const store = memoryStore({ shared: 'base' })
  const jobs = await Promise.all(
    Array.from({ length: 12 }, (_, at) =>
      execution(store, { shared: `by ${at}`, [`own-${at}`]: String(at) }, `j${at}`),
    ),
  )
  await Promise.all(jobs.map((back) => back()))
  const texts = store.texts()
  for (let at = 0; at < 12; at += 1) {
    expect(texts[`own-${at}`]).toBe(String(at))
    expect(Object.values(texts)).toContain(`by ${at}`)
  }
})

test('commits nothing if nothing changed', async () => {
  const store = memoryStore({ a: '1' })
  const back = await execution(store, { a: '1' }, 'j1')
  expect(await back()).toMatchObject({ status: 'unchanged', version: 1 })
})

test('other work of the process gets its turn while many files are judged and merged', async () => {
  // Every look at the clock shows that a slice of time is over.
  let time = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (time += 1000))
  onTestFinished(() => clock.mockRestore())
  let turns = 0
  const count = (): void => {
    turns += 1
    turning = setImmediate(count)
  }
  let turning = setImmediate(count)
  onTestFinished(() => clearImmediate(turning))
  const files = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`f${at}`, 'old']))
  const store = memoryStore(files)
  const after = Object.fromEntries(Object.keys(files).map((path) => [path, 'new']))
  const back = await execution(store, after, 'j')
  expect(turns).toBeGreaterThanOrEqual(100)
  turns = 0
  expect((await back()).applied).toHaveLength(100)
  // One turn for each file of the workspace, and one for each that changed.
  expect(turns).toBeGreaterThanOrEqual(200)
})
