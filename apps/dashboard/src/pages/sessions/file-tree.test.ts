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

it('is empty without files', () => {
  expect(fileTree([])).toEqual({ name: '', folders: [], files: [] })
})
