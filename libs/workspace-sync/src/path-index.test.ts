import fc from 'fast-check'
import { expect, test } from 'vitest'
import { foldPath } from './fold-names.ts'
import { createPathIndex } from './path-index.ts'

/** Some are the same name on some file system. U+2100 and U+FF0F fold to text with a slash. */
const part = fc.constantFrom('a', 'A', 'a.', 'b', 'c', 'a／c', 'A／c', '℀')
const path = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'))

/**
 * The definition of a clash, as plain code. Two different paths clash if they fold to the same text, if one
 * folds to a folder of the other, or if they spell the same folder differently.
 */
function collides(path: string, others: Iterable<string>): boolean {
  const foldersOf = (of: string): string[] =>
    of.split('/').flatMap((_, at, parts) => (at === 0 ? [] : [parts.slice(0, at).join('/')]))
  for (const other of others) {
    if (other === path) continue
    if (foldPath(other) === foldPath(path)) return true
    if (foldersOf(other).some((folder) => foldPath(folder) === foldPath(path))) return true
    for (const folder of foldersOf(path)) {
      if (foldPath(folder) === foldPath(other)) return true
      if (foldersOf(other).some((one) => one !== folder && foldPath(one) === foldPath(folder))) return true
    }
  }
  return false
}

test('finds the collisions of a path with those that were added and not deleted', () => {
  const step = fc.record({ path, isDeleted: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), path, (steps, asked) => {
      const index = createPathIndex()
      const added = new Set<string>()
      for (const { path: one, isDeleted } of steps) {
        // Callers ask whether a path clashes before they add it.
        expect(index.clashes(one)).toBe(collides(one, added))
        if (isDeleted && added.delete(one)) index.delete(one)
        else if (!isDeleted && !added.has(one) && !collides(one, added)) {
          added.add(one)
          index.add(one)
        }
      }
      expect(index.clashes(asked)).toBe(collides(asked, added))
    }),
    { numRuns: 3000 },
  )
})
