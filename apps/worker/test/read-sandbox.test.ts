/** Reads a sandbox in which a program replaced files of the workspace by links and folders. */
import { BOUNDS, CofferdamError, type Manifest, type Sandbox } from '@cofferdam/contract'
import { compileRules, factsOf } from '@cofferdam/workspace-sync'
import { expect, it, onTestFinished, vi } from 'vitest'
import { readSandbox } from '../src/read-sandbox.ts'

const CONTENT = Buffer.from('content')
const facts = { ...factsOf({ bytes: CONTENT }), mode: 0o644 }

/** A sandbox with these files. It refuses to read its other entries, as every backend's sandbox does. */
function sandboxOf(
  files: readonly string[],
  others: readonly string[],
  links: readonly string[] = [],
): Sandbox {
  return {
    links: async (_globs: readonly string[], most: number) =>
      links.slice(0, most).map((path) => ({ path, size: 0 })),
    list: async () => files.map((path) => ({ path, size: CONTENT.length })),
    read: async (path: string) => {
      if (files.includes(path)) return CONTENT
      throw new CofferdamError(others.includes(path) ? 'invalid_request' : 'not_found', path)
    },
  } as unknown as Sandbox
}

it('reports a file that was replaced by a link, and does not count it as deleted', async () => {
  const base: Manifest = new Map(['kept', 'link', 'deleted', 'folder'].map((path) => [path, facts]))
  const found = await readSandbox({
    sandbox: sandboxOf(['kept', 'folder/inside'], ['link', 'folder']),
    base,
    rules: compileRules(undefined),
    inputs: { mayBe: () => false, are: () => false },
    signal: new AbortController().signal,
  })
  expect(found.refused).toEqual([{ path: 'link', reason: 'not_a_file' }])
  expect([...found.manifest.keys()].toSorted()).toEqual(['folder/inside', 'kept', 'link'])
})

it('reports links that the program made, at most a hundred, and none of its tasks’ own folders', async () => {
  const own = `.exe_${'0'.repeat(32)}/link`
  const made = Array.from({ length: 150 }, (_, n) => `link-${n}`)
  const read = async (links: readonly string[]) =>
    await readSandbox({
      sandbox: sandboxOf(['kept'], ['was'], links),
      base: new Map(['kept', 'was'].map((path) => [path, facts])),
      rules: compileRules(undefined),
      inputs: { mayBe: () => false, are: () => false },
      signal: new AbortController().signal,
    })
  expect(
    (await read(['was', own, 'new/link'])).refused.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
  ).toEqual([
    { path: 'new/link', reason: 'not_a_file' },
    { path: 'was', reason: 'not_a_file' },
  ])
  const [long] = (await read(['x'.repeat(60_000)])).refused.filter(({ path }) => path !== 'was')
  expect(long?.path).toHaveLength(BOUNDS.pathLength)
  expect((await read(made)).refused.filter(({ path }) => path.startsWith('link-'))).toHaveLength(100)
})

it('reports files that lie too deep without reading them', async () => {
  const deep = `${'d/'.repeat(33)}file`
  const found = await readSandbox({
    sandbox: sandboxOf(['kept', deep], []),
    base: new Map([['kept', facts]]),
    rules: compileRules(undefined),
    inputs: { mayBe: () => false, are: () => false },
    signal: new AbortController().signal,
  })
  expect(found.refused).toEqual([{ path: deep, reason: 'too_deep' }])
  expect([...found.manifest.keys()]).toEqual(['kept'])
})

it('lets other work of the worker have its turn between files, and stops when it is told to', async () => {
  // Each reading of the clock is 1 s later, so every time slice is over when it is checked.
  let time = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (time += 1000))
  onTestFinished(() => clock.mockRestore())
  const stop = new AbortController()
  // None of these files is read, so reading itself never waits.
  const reading = readSandbox({
    sandbox: sandboxOf(
      Array.from({ length: 1000 }, (_, at) => `out/${at}`),
      [],
    ),
    base: new Map(),
    rules: compileRules([{ pattern: 'out', direction: 'never' }]),
    inputs: { mayBe: () => false, are: () => false },
    signal: stop.signal,
  })
  setImmediate(() => stop.abort(new Error('told to stop')))
  await expect(reading).rejects.toThrow('told to stop')
})
