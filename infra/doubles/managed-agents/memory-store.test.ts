/** The rules of memory stores: paths, sizes, views, prefixes and both kinds of conflict. */
import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { MemoryStore, seen } from './memory-store.ts'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const storeWith = (...paths: string[]): MemoryStore => {
  const store = new MemoryStore('notes')
  for (const path of paths) store.create({ path, content: path })
  return store
}
const idOf = (store: MemoryStore, path: string): string => {
  const found = store.list({ depth: 0, view: 'basic' }).find((item) => item.path === path)
  return found?.type === 'memory' ? found.id : ''
}

it.each([
  ['without a slash', 'a'],
  ['of the root', '/'],
  ['with an empty segment', '/a//b'],
  ['with ..', '/a/../b'],
  ['with a dot', '/a/./b'],
  ['with 21 segments', '/a'.repeat(21)],
  ['of 1025 bytes', `/${'ä'.repeat(512)}`],
  ['with a control character', '/a\u0007'],
  ['with a line separator', '/a\u2028b'],
  ['that is not in NFC', '/u\u0308'],
])('a path %s is refused', (_, path) => {
  expect(() => new MemoryStore('notes').create({ path, content: '' })).toThrow(/path/)
})

it.each([
  ['/notes', '/notes/todo.md'],
  ['/notes/todo.md', '/notes'],
  ['/notes', '/notes'],
])('%s blocks %s, and the error names it', (first, second) => {
  const store = storeWith(first)
  expect(() => store.create({ path: second, content: '' })).toThrow(
    expect.objectContaining({
      status: 409,
      type: 'memory_path_conflict_error',
      extra: { conflicting_memory_id: idOf(store, first), conflicting_path: first },
    }),
  )
})

it('content has its size and hash, and at most 102,400 bytes', () => {
  const store = new MemoryStore('notes')
  const memory = store.create({ path: '/a', content: 'ä'.repeat(51_200) })
  expect(seen(memory, 'basic')).toMatchObject({
    content: null,
    content_size_bytes: 102_400,
    content_sha256: sha256('ä'.repeat(51_200)),
  })
  expect(() => store.create({ path: '/b', content: 'x'.repeat(102_401) })).toThrow('at most 102400 bytes')
})

it('an update needs the expected hash unless nothing would change', () => {
  const store = storeWith('/a')
  const id = idOf(store, '/a')
  const precondition = { type: 'content_sha256' as const, content_sha256: sha256('other') }
  expect(() => store.update(id, { content: 'new', precondition })).toThrow(
    expect.objectContaining({ status: 409, type: 'memory_precondition_failed_error' }),
  )
  expect(store.update(id, { content: '/a', precondition }).content).toBe('/a')
  const right = { type: 'content_sha256' as const, content_sha256: sha256('/a') }
  expect(store.update(id, { content: 'new', precondition: right }).id).toBe(id)
  expect(() => store.delete(id, sha256('/a'))).toThrow(expect.objectContaining({ status: 409 }))
  store.delete(id, sha256('new'))
  expect(() => store.retrieve(id)).toThrow(expect.objectContaining({ status: 404 }))
})

it('a listing of depth 1 groups deeper memories', () => {
  const store = storeWith('/a.md', '/p/one.md', '/p/q/two.md', '/pq/three.md')
  expect(store.list({ depth: 1, view: 'basic' }).map(({ type, path }) => [type, path])).toEqual([
    ['memory', '/a.md'],
    ['memory_prefix', '/p/'],
    ['memory_prefix', '/pq/'],
  ])
  expect(store.list({ prefix: '/p/', depth: 0, view: 'full' })).toMatchObject([
    { path: '/p/one.md', content: '/p/one.md' },
    { path: '/p/q/two.md' },
  ])
})
