import { expect, it } from 'vitest'
import { fileTree } from './file-tree.ts'

it('makes folders, in order of their names', () => {
  const tree = fileTree([
    { path: 'b.txt', size: 1 },
    { path: 'out/deep/a.json', size: 2 },
    { path: 'out/z', size: 3 },
    { path: 'a.txt', size: 4 },
  ])
  expect(tree.files.map(({ path }) => path)).toEqual(['a.txt', 'b.txt'])
  expect(tree.folders).toEqual([
    {
      name: 'out',
      folders: [{ name: 'deep', folders: [], files: [{ name: 'a.json', path: 'out/deep/a.json', size: 2 }] }],
      files: [{ name: 'z', path: 'out/z', size: 3 }],
    },
  ])
})

it('takes names that objects have for ordinary names', () => {
  const tree = fileTree([{ path: '__proto__/constructor', size: 1 }])
  expect(tree.folders[0]).toMatchObject({ name: '__proto__', files: [{ name: 'constructor' }] })
})

it('does not go deeper than a screen can show', () => {
  let folder = fileTree([{ path: `${'a/'.repeat(500)}x`, size: 1 }])
  let depth = 0
  for (; folder.folders[0] !== undefined; depth += 1) folder = folder.folders[0]
  expect(depth).toBe(8)
  expect(folder.files.map(({ name }) => name)).toEqual([`${'a/'.repeat(492)}x`])
})

it('is empty without files', () => {
  expect(fileTree([])).toEqual({ name: '', folders: [], files: [] })
})
