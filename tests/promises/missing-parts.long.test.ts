/**
 * Hides parts of this machine and runs the test files that name them. Tests that need a hidden part must be
 * skipped, and the others in these files must pass. Repeats this as an ordinary user, in a copy of the tree.
 */
import { execFile, execFileSync } from 'node:child_process'
import { chmodSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { needs, type PartName } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { copyTree, ROOT } from './copy-tree.ts'

/** What scripts/hide-parts.py can hide, and the parts that are then missing. */
const HIDDEN: Readonly<Record<string, readonly PartName[]>> = {
  docker: ['docker', 'gvisor'],
  gvisor: ['gvisor'],
  microvm: ['microvm'],
  bwrap: ['bwrap'],
  'user-namespaces': [
    'user-namespaces',
    'unprivileged-namespaces',
    'bwrap',
    'self-jail',
    'process-namespaces',
  ],
  ip: ['hosts'],
  kubectl: ['kubectl'],
  openssl: ['openssl'],
  unzip: ['unzip'],
  'redis-server': ['redis-server'],
}
/** Test files that call these functions need docker, gVisor or bubblewrap without naming them. */
const NAMED_ELSEWHERE = /\b(?:needsBackend|exerciseStarted|exerciseAzure|onTargets|describeAgentcore)\(/
const OF_NAMED_ELSEWHERE = new Set<PartName>(['docker', 'gvisor', 'bwrap', 'process-namespaces'])
/** The user `nobody` of Debian, who owns nothing. */
const NOBODY = 65_534
const RUN = { timeout: 3_600_000 }

const shortTests = globSync('{apps,libs,infra,tests}/**/*.test.ts', {
  cwd: ROOT,
  exclude: (name) => name.endsWith('node_modules'),
}).filter((file) => !file.endsWith('.long.test.ts') && !file.startsWith('tests/architecture/'))

function filesThatName(parts: readonly PartName[]): string[] {
  const literal = new RegExp(`'(?:${parts.join('|')})'`)
  return shortTests.filter((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8')
    const isNamedElsewhere = NAMED_ELSEWHERE.test(text) && parts.some((part) => OF_NAMED_ELSEWHERE.has(part))
    return isNamedElsewhere || (/\bneeds\b/.test(text) && literal.test(text))
  })
}

/**
 * Runs `npm test` for these files while the parts are hidden. Resolves with its output. Rejects if it fails.
 */
function testWithout(hidden: string, files: readonly string[], cwd: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  // Leaves out variables that `npm run test:long` sets, for example of a cache that another user cannot
  // write.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(?:TEST_|VITEST|COFFERDAM_|npm_|NODE_ENV$)/.test(name)),
  )
  const command = ['npm', 'test', '--', '--silent', '--reporter=dot', ...files]
  execFile(
    'python3',
    [join(ROOT, 'scripts/hide-parts.py'), hidden, '--', ...command],
    { cwd, env: { ...env, ...(cwd === ROOT ? {} : { HOME: join(cwd, '..') }) }, maxBuffer: 64 * 1024 * 1024 },
    (error, stdout, stderr) =>
      error === null
        ? resolve(stdout)
        : reject(new Error(`exit ${error.code}\n${stdout.slice(-20_000)}\n${stderr.slice(-4000)}`)),
  )
  return promise
}

const SUM = /(\d+) passed, 0 failed, (\d+) skipped\s*$/

needs('root').describe('npm test as root', () => {
  it.each(Object.entries(HIDDEN))('passes without %s', RUN, async (hidden, parts) => {
    const files = filesThatName(parts)
    expect(files.length).toBeGreaterThan(0)
    expect(await testWithout(hidden, files, ROOT)).toMatch(SUM)
  })
})

needs('root').describe('npm test as an ordinary user', () => {
  let home: string
  beforeAll(() => {
    home = mkdtempSync(join(tmpdir(), 'cofferdam-user-'))
    chmodSync(home, 0o755)
    copyTree(join(home, 'tree'))
    execFileSync('chown', ['--recursive', '--no-dereference', `${NOBODY}:${NOBODY}`, home])
  })
  afterAll(() => rmSync(home, { recursive: true, force: true }))

  const { bwrap = [], 'user-namespaces': namespaces = [] } = HIDDEN
  it.each([
    // All test files, because a test may need root without naming it in `needs`.
    ['root', shortTests],
    ['root,bwrap', filesThatName(bwrap)],
    ['root,user-namespaces', filesThatName(namespaces)],
    ['root,all', filesThatName(Object.values(HIDDEN).flat())],
  ])('passes without %s', RUN, async (hidden, files) => {
    expect(await testWithout(hidden, files, join(home, 'tree'))).toMatch(SUM)
  })
})
