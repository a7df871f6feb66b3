/** The three-way merge: what is applied, what conflicts, and that nothing is lost. */
import { scheduleSeed } from '@cofferdam/embedded/testing'
import { compileRules, manifestOf, merge, sha256Of, type MergeInput } from '@cofferdam/workspace-sync'
import type { ConflictPolicy, Manifest } from '@cofferdam/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'

type Texts = Record<string, string>

const manifest = (texts: Texts): Manifest =>
  manifestOf(Object.entries(texts).map(([path, text]) => ({ path, bytes: Buffer.from(text) })))

function merged(base: Texts, host: Texts, sandbox: Texts, more: Partial<MergeInput> = {}) {
  const known = new Map(
    [base, host, sandbox].flatMap((texts) =>
      Object.values(texts).map((text): [string, string] => [sha256Of(Buffer.from(text)), text]),
    ),
  )
  const result = merge({
    base: manifest(base),
    host: manifest(host),
    sandbox: manifest(sandbox),
    rules: compileRules(),
    onConflict: 'keep-both',
    job: 'j1',
    ...more,
  })
  const texts = Object.fromEntries(
    [...result.manifest].map(([path, { sha256 }]) => [path, known.get(sha256) ?? '?']),
  )
  return { ...result, texts }
}

test('applies the changes, new files and deletions of the sandbox where the host did nothing', () => {
  const { texts, applied, conflicted, refused } = merged(
    { a: '1', b: '1', c: '1' },
    { a: '1', b: '1', c: '1', own: 'host' },
    { a: '2', c: '1', 'new/d': 'd' },
  )
  expect(texts).toEqual({ a: '2', c: '1', 'new/d': 'd', own: 'host' })
  expect(applied).toEqual([
    { path: 'b', change: 'deleted' },
    { path: 'a', change: 'written' },
    { path: 'new/d', change: 'written' },
  ])
  expect([conflicted, refused]).toEqual([[], []])
})

test('keeps the changes of the host where the sandbox did nothing', () => {
  expect(merged({ a: '1', b: '1' }, { a: 'host' }, { a: '1', b: '1' }).texts).toEqual({ a: 'host' })
})

const both = { base: { a: '1' }, host: { a: 'host' }, sandbox: { a: 'box' } }
test.each<[ConflictPolicy, Texts, string | null]>([
  ['keep-both', { a: 'host', 'a.conflict-j1': 'box' }, 'a.conflict-j1'],
  ['host-wins', { a: 'host' }, null],
  ['sandbox-wins', { a: 'box' }, 'a'],
  ['fail', { a: 'host' }, null],
])('a file that both sides changed is handled by the policy %s', (onConflict, texts, kept_as) => {
  const result = merged(both.base, both.host, both.sandbox, { onConflict })
  expect(result.texts).toEqual(texts)
  expect(result.conflicted).toEqual([{ path: 'a', kept_as }])
  expect(result.status).toBe(onConflict === 'fail' ? 'failed' : 'merged')
})

test('the policy fail merges nothing when there is a conflict', () => {
  const { texts, applied } = merged(
    { a: '1', b: '1' },
    { a: 'host', b: '1' },
    { a: 'box', b: '2' },
    { onConflict: 'fail' },
  )
  expect(texts).toEqual({ a: 'host', b: '1' })
  expect(applied).toEqual([])
})

test('a deletion never removes a version that the sandbox did not see', () => {
  expect(merged({ a: '1' }, { a: 'host' }, {}).texts).toEqual({ a: 'host' })
})

test('a change to a file that the host deleted is kept under a new name', () => {
  expect(merged({ a: '1' }, {}, { a: 'box' }).texts).toEqual({ 'a.conflict-j1': 'box' })
})

test('a file can become a folder, which gets another name if the host changed the file', () => {
  expect(merged({ a: '1' }, { a: '1' }, { 'a/b': '2' }).texts).toEqual({ 'a/b': '2' })
  // The host changed the file, so the folder gets another name.
  expect(merged({ a: '1' }, { a: 'host' }, { 'a/b': '2' }).texts).toEqual({
    a: 'host',
    'a.conflict-j1/b': '2',
  })
})

test('gives two names to files whose names are the same file on other systems', () => {
  const { texts, conflicted } = merged({}, { 'Read.me': 'host' }, { 'read.ME': 'box' })
  expect(texts).toEqual({ 'Read.me': 'host', 'read.ME.conflict-j1': 'box' })
  expect(conflicted).toEqual([{ path: 'read.ME', kept_as: 'read.ME.conflict-j1' }])
})

test('refuses paths that may not come out, cannot be stored or do not fit, with the reason', () => {
  const { texts, refused } = merged(
    {},
    {},
    {
      '.ssh/id': 'k',
      'mcp_servers.json': '{}',
      '../up': 'u',
      'C:x': 'c',
      'a\\b': 'b',
      big: 'xxxxxxxxxxx',
      ok: '1234567',
      over: '12345',
    },
    { limits: { files: 2, totalBytes: 11, fileBytes: 10 } },
  )
  expect(texts).toEqual({ ok: '1234567' })
  expect(refused).toEqual([
    { path: '../up', reason: 'bad_name' },
    { path: '.ssh/id', reason: 'never_list' },
    { path: 'C:x', reason: 'bad_name' },
    { path: 'a\\b', reason: 'bad_name' },
    { path: 'big', reason: 'file_too_large' },
    { path: 'mcp_servers.json', reason: 'control_file' },
    { path: 'over', reason: 'total_too_large' },
  ])
})

test('leaves out what lies too deep, and leaves a deep file of the workspace as it is', () => {
  const deep = `${'d/'.repeat(33)}file`
  const before = { [`${deep}-changed`]: '1', [`${deep}-deleted`]: '1' }
  const { texts, refused } = merged(before, before, {
    [`${deep}-changed`]: '2',
    [`${deep}-new`]: '3',
    ok: '4',
  })
  expect(texts).toEqual({ ...before, ok: '4' })
  const paths = [`${deep}-deleted`, `${deep}-changed`, `${deep}-new`]
  expect(refused).toEqual(paths.map((file) => ({ path: file, reason: 'too_deep' })))
})

const path = fc.constantFrom('a', 'A', 'b', 'a/x', 'a/y', 'b/c', 'B/c', '.env', 'a.conflict-j1', 'skills/s')
const texts = fc.dictionary(path, fc.constantFrom('1', '2', '3', '4', ''), { maxKeys: 8 })
/** Like every workspace, without two names of the same file (such as a and A). */
const sound = texts.map((all) => merged({}, {}, all).texts)

test('loses nothing: after a merge every version exists or is listed as refused', () => {
  fc.assert(
    fc.property(sound, sound, texts, (base, host, sandbox) => {
      const result = merged(base, host, sandbox)
      const versions = Object.values(result.texts)
      const named = new Set(result.refused.map((one) => one.path))
      for (const [file, text] of Object.entries(host))
        // A version disappears only if the sandbox saw it and changed or deleted it.
        if (result.texts[file] !== text) {
          expect(base[file]).toBe(text)
          expect(sandbox[file]).not.toBe(text)
        }
      for (const [file, text] of Object.entries(sandbox))
        if (base[file] !== text && !named.has(file)) expect(versions).toContain(text)
      for (const file of Object.keys(result.texts))
        if (file === '.env') expect(result.texts[file]).toBe(host[file])
    }),
    { seed: scheduleSeed(), numRuns: 1500 },
  )
})

test('repeating a merge changes nothing, under every policy', () => {
  const policy = fc.constantFrom<ConflictPolicy>('keep-both', 'fail', 'host-wins', 'sandbox-wins')
  fc.assert(
    fc.property(sound, sound, texts, policy, (base, host, sandbox, onConflict) => {
      const once = merged(base, host, sandbox, { onConflict })
      const twice = merged(base, once.texts, sandbox, { onConflict })
      expect(twice.texts).toEqual(once.texts)
    }),
    { seed: scheduleSeed(), numRuns: 1500 },
  )
})

test('a merge never leaves two names of one file, nor a file that is also a folder', () => {
  fc.assert(
    fc.property(sound, sound, texts, (base, host, sandbox) => {
      const paths = Object.keys(merged(base, host, sandbox).texts).map((name) => name.toLowerCase())
      expect(new Set(paths).size).toBe(paths.length)
      for (const one of paths) expect(paths.some((other) => other.startsWith(`${one}/`))).toBe(false)
    }),
    { seed: scheduleSeed(), numRuns: 1500 },
  )
})
