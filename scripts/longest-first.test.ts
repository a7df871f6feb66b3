import { existsSync } from 'node:fs'
import { expect, it } from 'vitest'
import { LONG_FILES } from './longest-first.ts'

it('names only existing files, each once', () => {
  const missing = LONG_FILES.filter((file) => !existsSync(new URL(`../${file}`, import.meta.url)))
  expect(missing).toEqual([])
  expect(new Set(LONG_FILES).size).toBe(LONG_FILES.length)
})
