import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { removeTree } from './remove-tree.ts'

let base = ''
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'cofferdam-remove-'))
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

test('removes directories nested deeper than any path can express', async () => {
  const root = join(base, 'deep')
  mkdirSync(root)
  // Goes down by `cd`, one folder at a time, as a program could. No path is long enough for the deepest one.
  execFileSync(
    'sh',
    [
      '-c',
      'i=0; while [ $i -lt 200 ]; do mkdir "$1" && cd "$1"; i=$((i + 1)); done; echo x > file',
      '-',
      'd'.repeat(200),
    ],
    {
      cwd: root,
    },
  )
  await expect(rm(root, { recursive: true })).rejects.toThrow(/ENAMETOOLONG/)
  await removeTree(root)
  expect(existsSync(root)).toBe(false)
})

test('removes links, locked directories and names like its own, and follows no link', async () => {
  const root = join(base, 'odd')
  const outside = join(base, 'outside')
  mkdirSync(outside)
  writeFileSync(join(outside, 'kept'), 'kept')
  mkdirSync(join(root, 'a/b/c'), { recursive: true })
  mkdirSync(join(root, '.removed-0/x'), { recursive: true })
  writeFileSync(join(root, '.removed-1'), '')
  symlinkSync(outside, join(root, 'a/link'))
  symlinkSync(outside, join(root, 'a/b/c/link'))
  writeFileSync(Buffer.concat([Buffer.from(`${root}/a/`), Buffer.from([0xff, 0xfe])]), '')
  mkdirSync(join(root, 'locked/full'), { recursive: true })
  execFileSync('chmod', ['000', join(root, 'locked/full'), join(root, 'locked')])
  await removeTree(root)
  expect(existsSync(root)).toBe(false)
  expect(readFileSync(join(outside, 'kept'), 'utf8')).toBe('kept')
})

test('succeeds when there is nothing to remove', async () => {
  await expect(removeTree(join(base, 'absent'))).resolves.toBeUndefined()
})
