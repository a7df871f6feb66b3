/**
 * A file that leaves something to the long tier must be in the long tier, or nothing would run it. Every
 * package with unit tests must have the script that turbo runs.
 */
import { globSync, readFileSync } from 'node:fs'
import { matchesGlob } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import config from '../../vitest.config.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/**
 * Names in files that leave tests to the long tier. Helpers like `exerciseBackend` do so for the files that
 * use them.
 */
const LEAVES =
  /\b(?:isLongTier|inLongTier|shortThemes|exerciseBackend|exerciseStarted|exerciseAzure|onTargets|LOOKS)\b/

const longPatterns = (): readonly string[] => {
  const projects = (config.test?.projects ?? []).flatMap((project) =>
    typeof project === 'object' && 'test' in project && project.test !== undefined ? [project.test] : [],
  )
  const long = projects.filter(({ name }) => typeof name === 'string' && name.startsWith('long'))
  return long.flatMap(({ include }) => include ?? [])
}

it('everything that a file leaves out of the short tier runs in the long tier', () => {
  const patterns = longPatterns()
  const files = globSync('{apps,libs,tests}/**/*.test.ts', {
    cwd: ROOT,
    exclude: (name) => name.endsWith('node_modules') || name === 'tests/architecture',
  })
  const leaving = files.filter((file) => LEAVES.test(readFileSync(ROOT + file, 'utf8')))
  expect(leaving.length).toBeGreaterThan(20)
  expect(leaving.filter((file) => !patterns.some((pattern) => matchesGlob(file, pattern)))).toEqual([])
})

it('every package with unit tests has the script that turbo runs', () => {
  const packages = globSync('{apps,libs,libs/backends}/*/package.json', { cwd: ROOT })
  const withTests = packages.filter((manifest) => {
    const src = manifest.replace('package.json', 'src/**/*.test.ts')
    return globSync(src, { cwd: ROOT }).some((file) => !/\.(conformance|long)\.test\.ts$/.test(file))
  })
  const scripts = (manifest: string): Record<string, string> =>
    (JSON.parse(readFileSync(ROOT + manifest, 'utf8')) as { scripts?: Record<string, string> }).scripts ?? {}
  expect(withTests.length).toBeGreaterThan(15)
  expect(withTests.filter((manifest) => scripts(manifest)['test:unit'] === undefined)).toEqual([])
})
