/** Workspaces in directories: no link is followed. */
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compileRules, manifestOf, readDirectory, writeDirectory } from '@cofferdam/workspace-sync'
import { afterEach, beforeEach, expect, test } from 'vitest'

let outer: string
let root: string
beforeEach(async () => {
  outer = await mkdtemp(join(tmpdir(), 'workspace-'))
  root = join(outer, 'root')
  await mkdir(root)
})
afterEach(() => rm(outer, { recursive: true }))

const file = (path: string, text: string, executable = false) => ({
  path,
  bytes: Buffer.from(text),
  ...(executable ? { executable } : {}),
})

test('writes whole files with their modes, deletes files, and leaves no empty folders', async () => {
  await writeDirectory(root, { files: [file('a/b/c.txt', '1'), file('run.sh', '#!', true)], deleted: [] })
  expect(await readFile(join(root, 'a/b/c.txt'), 'utf8')).toBe('1')
  expect((await stat(join(root, 'run.sh'))).mode & 0o111).not.toBe(0)
  await writeDirectory(root, { files: [file('run.sh', 'new')], deleted: ['a/b/c.txt', 'a/b/never-was'] })
  expect(await readdir(root)).toEqual(['run.sh'])
  expect(await readFile(join(root, 'run.sh'), 'utf8')).toBe('new')
})

test('does not overwrite a file that was changed since it was read', async () => {
  await writeDirectory(root, { files: [file('a', 'old'), file('gone', 'old')], deleted: [] })
  const found = manifestOf([file('a', 'old'), file('gone', 'old')])
  // Recreate the files with the same name, size and mode, so that these do not show the change.
  for (const name of ['a', 'gone']) await rm(join(root, name))
  await writeDirectory(root, {
    files: [file('a', 'own'), file('gone', 'own'), file('new', 'own')],
    deleted: [],
  })
  for (const change of [
    { files: [file('a', 'theirs')], deleted: [] },
    { files: [], deleted: ['gone'] },
    { files: [file('new', 'theirs')], deleted: [] },
  ])
    await expect(writeDirectory(root, change, found)).rejects.toMatchObject({ code: 'conflict' })
  for (const name of ['a', 'gone', 'new']) expect(await readFile(join(root, name), 'utf8')).toBe('own')
  expect((await readdir(root)).toSorted()).toEqual(['a', 'gone', 'new'])
  await writeDirectory(root, { files: [file('a', 'theirs')], deleted: [] }, manifestOf([file('a', 'own')]))
  expect(await readFile(join(root, 'a'), 'utf8')).toBe('theirs')
})

test('refuses a link in place of a folder, and replaces a link in place of a file', async () => {
  await mkdir(join(outer, 'elsewhere'))
  await writeFile(join(outer, 'elsewhere', 'x'), 'untouched')
  await symlink('../elsewhere', join(root, 'folder'))
  await symlink('../elsewhere/x', join(root, 'x'))
  const write = (path: string) => writeDirectory(root, { files: [file(path, 'evil')], deleted: [] })
  await expect(write('folder/y')).rejects.toMatchObject({ code: 'conflict' })
  await write('x')
  await expect(writeDirectory(root, { files: [], deleted: ['folder/x'] })).rejects.toMatchObject({
    code: 'conflict',
  })
  expect(await readFile(join(outer, 'elsewhere', 'x'), 'utf8')).toBe('untouched')
  expect(await readdir(join(outer, 'elsewhere'))).toEqual(['x'])
  expect(await readFile(join(root, 'x'), 'utf8')).toBe('evil')
})

test.each(['../up', '/etc/x', 'a/../../x', 'C:x', 'a\0'])('refuses to write the path %j', async (path) => {
  await expect(writeDirectory(root, { files: [file(path, '')], deleted: [] })).rejects.toMatchObject({
    code: 'invalid_request',
  })
})

test('reads files, reports what it skips, and follows no link', async () => {
  await mkdir(join(root, '.ssh'))
  await writeFile(join(root, '.ssh', 'id'), 'secret')
  await writeFile(join(root, 'a.txt'), 'a')
  await writeFile(join(outer, 'secret'), 'secret')
  await symlink('../secret', join(root, 'link'))
  const { files, refused } = await readDirectory(root, compileRules())
  expect(files.map(({ path }) => path)).toEqual(['a.txt'])
  expect(refused).toEqual([
    { path: '.ssh', reason: 'never_list' },
    { path: 'link', reason: 'not_a_file' },
  ])
})

test('skips folders that lie too deep, and names them', async () => {
  const deepest = 'd/'.repeat(32)
  await mkdir(join(root, `${deepest}d/d/d`), { recursive: true })
  await writeFile(join(root, `${deepest}file`), 'read')
  await writeFile(join(root, `${deepest}d/d/file`), 'too deep')
  const { files, refused } = await readDirectory(root, compileRules())
  expect(files.map(({ path }) => path)).toEqual([`${deepest}file`])
  expect(refused).toEqual([{ path: `${deepest}d/d`, reason: 'too_deep' }])
})

test('refuses a directory that exceeds the limits, and reads no part of it', async () => {
  await writeFile(join(root, 'a'), '123456')
  await writeFile(join(root, 'b'), '123456')
  const limits = { entries: 9, totalBytes: 10, fileBytes: 8, ratio: 200 }
  await expect(readDirectory(root, compileRules(), limits)).rejects.toMatchObject({
    code: 'payload_too_large',
  })
  await expect(readDirectory(root, compileRules(), { ...limits, fileBytes: 5 })).rejects.toMatchObject({
    code: 'payload_too_large',
  })
})
