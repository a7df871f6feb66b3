/**
 * A wait in a test ends with the event that it waits for, and its deadline only matters when the test fails.
 * A deadline that is shorter than a slow machine's pause (vitest's default is a second) fails a correct
 * product.
 */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Ten times what the longest of these waits takes on a quiet machine. */
const LEAST_MS = 10_000
/** `testTimeout` of every project but `unit` (vitest.config.ts). */
const PROJECT_MS = 180_000
/** The options of a test, before its function. */
const TEST_TIME = /\{ timeout: ([\d_]+) \},\s*(?:async )?\(/g
const WAITS = /\b(?:vi\.waitFor|expect\s*\.poll)\(/g

/** The last argument of the call whose parenthesis opens at `from`. Its strings have balanced brackets. */
function lastArgument(text: string, from: number): string {
  let depth = 0
  let last = from + 1
  let first = true
  for (let at = from; at < text.length; at += 1) {
    const sign = text[at] ?? ''
    if ('([{'.includes(sign)) depth += 1
    if (')]}'.includes(sign)) depth -= 1
    const isComma = sign === ',' && depth === 1
    if (isComma && /^\s*\)/.test(text.slice(at + 1))) return first ? '' : text.slice(last, at)
    if (depth === 0) return first ? '' : text.slice(last, at)
    if (!isComma) continue
    first = false
    last = at + 1
  }
  throw new Error('a bracket is not closed')
}

/** Waits of a file whose deadline is too short. A deadline that is a named constant is accepted. */
function problemsOf(file: string, text: string): string[] {
  return [...text.matchAll(WAITS)].flatMap((wait) => {
    const options = lastArgument(text, wait.index + wait[0].length - 1)
    const [, figure, name] = /(?:^|\btimeout: )\s*(?:([\d_]+)|([A-Z_]+))/.exec(options) ?? []
    if (name !== undefined || Number(figure?.replaceAll('_', '')) >= LEAST_MS) return []
    const line = text.slice(0, wait.index).split('\n').length
    return [`${file}:${line}: waits for ${figure ?? 'one second'}, not for ${LEAST_MS} ms at least`]
  })
}

it.each([
  ['vi.waitFor(() => f(1, 2), 20_000)', true],
  ['vi.waitFor(() => f(), { timeout: 10_000, interval: 5 })', true],
  ['vi.waitFor(() => f(), SOON)', true],
  ['await expect\n  .poll(() => f(), { timeout: 30_000 })\n  .toBe(1)', true],
  ['vi.waitFor(() => f(1, 2))', false],
  ['vi.waitFor(\n  () => f(),\n)', false],
  ['vi.waitFor(() => f(), 5000)', false],
  ['expect.poll(() => f(), { interval: 20_000 })', false],
])('judges %j', (text, isGood) => {
  expect(problemsOf('x.test.ts', text).length === 0).toBe(isGood)
})

it('no test waits with a deadline that a slow machine can miss', () => {
  const files = globSync('{apps,libs,tests}/**/*.ts', {
    cwd: ROOT,
    exclude: (name) => name.endsWith('node_modules'),
  }).filter((file) => /\.test\.ts$|\/test\/|^tests\//.test(file) && !file.endsWith('test-deadlines.test.ts'))
  expect(files.length).toBeGreaterThan(100)
  expect(files.flatMap((file) => problemsOf(file, readFileSync(ROOT + file, 'utf8')))).toEqual([])
})

it('no test outside of `unit` has less time than its project gives it', () => {
  const files = globSync(['tests/**/*.test.ts', '{apps,libs}/**/test/**/*.test.ts'], {
    cwd: ROOT,
    exclude: (name) => name.endsWith('node_modules'),
  })
  expect(files.length).toBeGreaterThan(100)
  const short = files.filter((file) =>
    [...readFileSync(ROOT + file, 'utf8').matchAll(TEST_TIME)].some(
      ([, figure = '']) => Number(figure.replaceAll('_', '')) < PROJECT_MS,
    ),
  )
  expect(short).toEqual([])
})
