/** Breaks each of ten promises in a copy of the tree, and checks that tests of `npm test` then fail. */
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { BROKEN_PROMISES, type BrokenPromise } from './broken-promises.ts'
import { copyTree, ROOT } from './copy-tree.ts'

/** Inside the tree, because the installed packages are hard links, which need the same file system. */
const CACHE = join(ROOT, '.cache')
let copy: string

beforeAll(() => {
  mkdirSync(CACHE, { recursive: true })
  copy = mkdtempSync(join(CACHE, 'broken-promises-'))
  copyTree(copy)
  // Links to the workspaces are relative, so the copy's packages find the copy's libs.
  execFileSync('cp', ['-al', join(ROOT, 'node_modules'), copy])
})
afterAll(() => rmSync(copy, { recursive: true, force: true }))

/** Runs tests in the copy. Resolves with vitest's exit code and output. */
function runTests(tests: readonly string[]): Promise<{ code: number; output: string }> {
  const { promise, resolve } = Promise.withResolvers<{ code: number; output: string }>()
  const vitest = [join(copy, 'node_modules/vitest/vitest.mjs'), 'run', '--root', copy, '--project=!long*']
  const options = { cwd: copy, maxBuffer: 64 * 1024 * 1024 }
  execFile(process.execPath, [...vitest, ...tests], options, (error, stdout, stderr) => {
    const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1
    resolve({ code, output: stdout + stderr })
  })
  return promise
}

/** Runs `work` while the line is broken. */
async function whileBroken<T>({ file, line, broken }: BrokenPromise, work: () => Promise<T>): Promise<T> {
  const path = join(copy, file)
  const whole = readFileSync(path, 'utf8')
  expect(whole.split(line), `${file} has this line once: ${line}`).toHaveLength(2)
  writeFileSync(
    path,
    whole.replace(line, () => broken),
  )
  try {
    return await work()
  } finally {
    writeFileSync(path, whole)
  }
}

it.each(BROKEN_PROMISES.map((broken) => [broken.promise, broken] as const))(
  'tests of `npm test` fail when this promise is broken: %s',
  { timeout: 300_000 },
  async (_promise, broken) => {
    expect(broken.tests.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
    const { code, output } = await whileBroken(broken, () => runTests(broken.tests))
    expect({ code, failed: /Tests .*\d+ failed/.test(stripVTControlCharacters(output)) }, output).toEqual({
      code: 1,
      failed: true,
    })
  },
)

it('tests of `npm test` pass in a copy in which no promise is broken', { timeout: 600_000 }, async () => {
  const { code, output } = await runTests(BROKEN_PROMISES.flatMap(({ tests }) => tests))
  expect(code, output).toBe(0)
})
