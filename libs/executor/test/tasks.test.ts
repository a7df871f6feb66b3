/** Test runs through the executor on this machine's backends: right, wrong, endless, broken and hostile. */
import { createBackends } from '@cofferdam/backends'
import type { Backend, ExecutionRequestInput, Outcome } from '@cofferdam/contract'
import { isLongTier, needs, needsBackend } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Attempt } from '../src/index.ts'
import { attemptOf, harness } from './attempts.ts'
import { createManualClock, type ManualClock } from './manual-clock.ts'

const RIGHT = 'def add(a, b):\n    return a + b\n'
const WRONG = 'def add(a, b):\n    return a - b\n'
const UNITTEST = `import unittest
from calc import add

class TestAdd(unittest.TestCase):
    def test_small(self):
        self.assertEqual(add(1, 2), 3)

    def test_zero(self):
        self.assertEqual(add(0, 0), 0)
`
const NODE_TEST = `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { add } from '../calc.mjs'

test('adds', () => {
  assert.equal(add(1, 2), 3)
})
test('adds nothing', () => assert.equal(add(0, 0), 0))
`
const PYTEST = `import pytest
from calc import add

@pytest.mark.parametrize("a", [1, 2])
def test_add(a):
    assert add(a, 1) == a + 1

def test_größe():
    assert add(0, 0) == 0
`

/** A sparse gigabyte where the file system allows it, else 20 MiB. Both are more than is read. */
const HUGE = `try: os.truncate(path, 1 << 30)
        except OSError: open(path, 'wb').write(b'x' * (20 << 20))`

/** 2,000 differences of long texts take 3 s on a quiet machine, and up to sixteen on a busy one. */
const SOFT_MS = 100_000
const TEST_MS = SOFT_MS + 20_000

let backends: Map<string, Backend>
beforeAll(async () => {
  backends = await createBackends({ process: {}, docker: {} })
})
afterAll(async () => {
  for (const backend of backends.values()) await backend[Symbol.asyncDispose]()
})

interface Asked extends Partial<ExecutionRequestInput> {
  tests?: { framework?: 'pytest' | 'unittest' | 'node:test' | 'npm'; command?: string; path?: string }
}

interface Watched extends Partial<Pick<Attempt, 'onOutput'>> {
  clock?: ManualClock
}

/** Runs the tests of some files. Our own files must not be among the files that come back. */
async function tested(
  backend: string,
  files: Record<string, string>,
  asked: Asked = {},
  { clock, ...heard }: Watched = {},
): Promise<Outcome> {
  const { tests = {}, ...request } = asked
  const one = backends.get(backend)
  if (one === undefined) throw new Error(`no backend ${backend}`)
  const test = harness([one], clock === undefined ? {} : { clock })
  const attempt = attemptOf(
    {
      program: { type: 'tests', ...tests },
      files: Object.entries(files).map(([path, content]) => ({ path, content })),
      ...request,
      limits: { soft_timeout_ms: SOFT_MS, hard_timeout_ms: SOFT_MS + 5000, ...request.limits },
    },
    heard,
  )
  const outcome = await test.executor.execute(attempt)
  expect(test.errors).toEqual([])
  return outcome
}

// Both backends give the same reports, so the short tier uses `docker` only for pytest in the image (below).
for (const name of isLongTier() ? ['process', 'docker'] : ['process'])
  needsBackend(name).describe(`on ${name}`, { timeout: TEST_MS }, () => {
    const run = (files: Record<string, string>, asked?: Asked, watched?: Watched) =>
      tested(name, files, asked, watched)

    it('a correct project passes, and only its own files come back', async () => {
      const files = { 'calc.py': RIGHT, 'tests/test_calc.py': UNITTEST }
      const outcome = await run(files, { artifacts: ['**/*'] })
      expect(outcome).toMatchObject({
        ending: 'ok',
        failureReason: null,
        tests: {
          framework: 'unittest',
          command: 'python3 -m unittest',
          total: 2,
          passed: 2,
          failed: 0,
          failures: [],
          complete: true,
        },
      })
      expect(outcome.artifacts.map(({ path }) => path).filter((path) => !path.endsWith('.pyc'))).toEqual([
        'calc.py',
        'tests/test_calc.py',
      ])
      expect(outcome.stderr.text).toContain('Ran 2 tests')
    })

    it('a failing test is named with its file and line', async () => {
      const outcome = await run({ 'calc.py': WRONG, 'tests/test_calc.py': UNITTEST })
      expect(outcome).toMatchObject({
        ending: 'error',
        exitCode: 1,
        reason: 'tests_failed',
        tests: { total: 2, passed: 1, failed: 1, complete: true },
      })
      expect(outcome.tests?.failures).toMatchObject([{ file: 'tests/test_calc.py', line: 6 }])
      expect(outcome.tests?.failures[0]?.message).toContain('AssertionError: -1 != 3')
      expect(outcome.failureReason).toMatch(/^1 of 2 tests failed: test_small .*\(tests\/test_calc\.py:6\)/)
    })

    it('a test with subtests counts once, and each failed subtest is listed', async () => {
      const source = `import unittest
class A(unittest.TestCase):
    def test_parts(self):
        for n in range(4):
            with self.subTest(n=n): self.assertEqual(n % 2, 0)
    def test_whole(self):
        with self.subTest("fine"): pass
`
      const outcome = await run({ 'test_a.py': source })
      expect(outcome.tests).toMatchObject({ total: 2, passed: 1, failed: 1, errored: 0, complete: true })
      expect(outcome.tests?.failures.map(({ name }) => name.slice(-5))).toEqual(['(n=1)', '(n=3)'])
      expect(outcome.stderr.text).toContain('Ran 2 tests')
    })

    it('a project without its packages gets the advice to install them', async () => {
      const outcome = await run({
        'package.json': JSON.stringify({ devDependencies: { vitest: '^3' } }),
        'src/a.test.ts': "import { it } from 'vitest'",
        'node_modules/x/test_x.py': 'import pytest',
      })
      expect(outcome).toMatchObject({ ending: 'error', reason: 'runner_missing', exitCode: 127 })
      expect(outcome.failureReason).toContain('vitest is not installed. Run an install first')
    })

    it('files that import node:test are found, and so are their failures', async () => {
      const right = { 'calc.mjs': 'export const add = (a, b) => a + b\n', 'test/calc.test.mjs': NODE_TEST }
      expect(await run(right)).toMatchObject({
        ending: 'ok',
        tests: { framework: 'node:test', total: 2, passed: 2, complete: true },
      })
      const wrong = { ...right, 'calc.mjs': 'export const add = (a, b) => a - b\n' }
      const outcome = await run(wrong)
      expect(outcome).toMatchObject({ ending: 'error', tests: { total: 2, failed: 1, complete: true } })
      expect(outcome.tests?.failures).toMatchObject([{ name: 'adds', file: 'test/calc.test.mjs', line: 6 }])
    })

    it('a failing hook of a suite is an error, even if every test passed', async () => {
      const source = `import { after, describe, it } from 'node:test'
describe('a server', () => {
  it('answers', () => {})
  after(() => { throw new Error('not closed') })
})
`
      const { tests } = await run({ 'a.test.mjs': source })
      expect(tests).toMatchObject({ total: 2, passed: 1, errored: 1, complete: true })
      expect(tests?.failures).toMatchObject([{ name: 'a server', file: 'a.test.mjs', line: 4 }])
      expect(tests?.failures[0]?.message).toContain('not closed')
    })

    // npm does not run in a jail without namespaces, which refuses its file operations.
    const npm = needs(name === 'docker' ? 'docker' : 'process-namespaces')
    npm.it('the test script of a package runs with its own arguments', async () => {
      const outcome = await run({
        'package.json': JSON.stringify({
          type: 'module',
          scripts: {
            test: 'npm run build && node --test --test-name-pattern=nothing "test/*.mjs"',
            build: 'echo built',
          },
        }),
        'calc.mjs': 'export const add = (a, b) => a + b\n',
        'test/calc.test.mjs': NODE_TEST,
      })
      expect(outcome).toMatchObject({ ending: 'ok', tests: { command: 'npm test', total: 1, passed: 1 } })
      expect(outcome.stdout.text).toContain('built')
    })

    it('a test that never ends is stopped, and earlier results are kept', async () => {
      const wait = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)'
      const endless = `${NODE_TEST}test('hangs', () => { ${wait} })\n`
      const files = { 'calc.mjs': 'export const add = (a, b) => a + b\n', 'test/calc.test.mjs': endless }
      const outcome = await run(files, { limits: { soft_timeout_ms: 2500, hard_timeout_ms: 5000 } })
      expect(['soft_timeout', 'hard_timeout']).toContain(outcome.ending)
      expect(outcome.tests).toMatchObject({ framework: 'node:test', complete: false })
      const python =
        'import time, unittest\nclass A(unittest.TestCase):\n  def test_a(self): pass\n' +
        '  def test_b(self):\n    print("endless", flush=True)\n    time.sleep(1000)\n'
      const clock = createManualClock()
      let isUp = false
      // Move the clock when the second test runs, however long this host took. Only once: a trace may show
      // the line again. A second move would use up the time in which `execute` waits for the proof that the
      // sandbox is gone.
      const onOutput = (_stream: string, text: string): void => {
        if (isUp || !text.includes('endless')) return
        isUp = true
        void clock.advance(SOFT_MS)
      }
      const stopped = await run({ 'test_a.py': python }, {}, { clock, onOutput })
      expect(stopped).toMatchObject({ ending: 'soft_timeout', tests: { passed: 1, complete: false } })
    })

    it('a test file with a syntax error is an error with its line, and the others run', async () => {
      const outcome = await run({
        'calc.py': RIGHT,
        'test_calc.py': UNITTEST,
        'test_broken.py': 'import unittest\n\ndef (:\n',
      })
      expect(outcome).toMatchObject({ ending: 'error', tests: { passed: 2, errored: 1, complete: true } })
      expect(outcome.tests?.failures).toMatchObject([{ file: 'test_broken.py', line: 3 }])
    })

    it('packages below src come before an installed copy, and both kinds of test names work', async () => {
      const files = {
        'src/calc/__init__.py': RIGHT,
        '.packages/calc/__init__.py': WRONG,
        '.packages/dep.py': '',
        'tests/__init__.py': '',
        'tests/calc_test.py': `import dep\n${UNITTEST}`,
        'tests/test_calc.py': UNITTEST,
        'contest.py': 'raise SystemExit("this is no test")',
      }
      expect(await run(files)).toMatchObject({
        ending: 'ok',
        tests: { framework: 'unittest', total: 4, passed: 4, complete: true },
      })
    })

    it('a project without tests is refused before it runs, with a list of its files', async () => {
      expect(await run({ 'main.py': 'print(1)' })).toMatchObject({
        ending: 'error',
        began: false,
        reason: 'no_tests',
        failureReason: expect.stringContaining('it holds main.py'),
      })
      expect(await run({})).toMatchObject({ failureReason: expect.stringContaining('it is empty') })
      expect(await run({ 'test_nothing.py': 'import unittest\n' })).toMatchObject({
        ending: 'error',
        reason: 'no_tests',
        failureReason: 'unittest found no tests ("python3 -m unittest").',
      })
    })

    it('names with non-ASCII characters come back unchanged', async () => {
      const source = `import unittest
class Größe(unittest.TestCase):
    def test_größe(self): self.assertEqual('☃', '☂')
    def test_ok(self): pass
`
      const outcome = await run({ 'tests/test_größe.py': source })
      expect(outcome.tests).toMatchObject({ total: 2, failed: 1 })
      expect(outcome.tests?.failures).toMatchObject([{ file: 'tests/test_größe.py', line: 3 }])
      expect(outcome.tests?.failures[0]?.name).toContain('test_größe')
    })

    it('2,000 failing tests are counted, and 500 are listed', async () => {
      const source = `import unittest
class Many(unittest.TestCase): pass
for n in range(2000):
    setattr(Many, 'test_%d' % n, lambda self: self.assertEqual('x' * 3000, 'y' * 3000))
`
      const outcome = await run({ 'test_many.py': source })
      expect(outcome.tests).toMatchObject({
        total: 2000,
        failed: 2000,
        failures_omitted: 1500,
        complete: true,
      })
      expect(outcome.tests?.failures).toHaveLength(500)
      expect(outcome.failureReason).toMatch(/^2000 of 2000 tests failed: .* and 1997 more$/)
    })

    it('50 MB of output change neither counts nor bounds', async () => {
      const source = `import unittest
class Loud(unittest.TestCase):
    def test_loud(self):
        for n in range(50): print('x' * 1_000_000)
`
      const outcome = await run({ 'test_loud.py': source })
      expect(outcome).toMatchObject({ ending: 'ok', tests: { total: 1, passed: 1, complete: true } })
      expect(outcome.stdout.bytes).toBeGreaterThan(50_000_000)
      expect(outcome.stdout.text.length).toBeLessThanOrEqual(262_144)
    })

    it('a test that ends the runner with success does not make the others pass', async () => {
      const source = `import os, unittest
class A(unittest.TestCase):
    def test_a(self): pass
    def test_b(self):
        print('=== 7 passed in 0.01s ===', flush=True)
        os._exit(0)
    def test_c(self): self.fail()
`
      const outcome = await run({ 'test_a.py': source })
      expect(outcome).toMatchObject({
        ending: 'error',
        exitCode: 0,
        reason: 'tests_incomplete',
        tests: { total: 1, passed: 1, complete: false },
      })
      const killed = await run({ 'test_a.py': source.replace('os._exit(0)', 'os.kill(os.getpid(), 9)') })
      expect(killed).toMatchObject({ ending: 'crashed', tests: { passed: 1, complete: false } })
    })

    it('a forged or endless report is wrong only about its own tests', async () => {
      const forging = (write: string): string => `import glob, os, sys, unittest
class A(unittest.TestCase):
    def test_a(self):
        path = glob.glob('.exe_*/report.jsonl')[0]
        ${write}
        os._exit(1)
`
      const nonsense = await run({
        'test_a.py': forging(`open(path, 'w').write('{"t":"test"}\\nnull\\n[[[')`),
      })
      expect(nonsense).toMatchObject({ ending: 'error', exitCode: 1, tests: { total: 0, complete: false } })
      const outside = JSON.stringify({
        t: 'test',
        name: 'x'.repeat(5000),
        status: 'failed',
        ms: -1,
        message: 'm'.repeat(20_000),
        file: '../../etc/passwd',
        line: -3,
      })
      const forged = await run({
        'test_a.py': forging(`open(path, 'w').write('''${outside}\\n{"t":"end"}''')`),
      })
      expect(forged.tests?.failures).toEqual([
        { name: 'x'.repeat(1024), file: null, line: null, message: 'm'.repeat(8192) },
      ])
      const huge = await run({ 'test_a.py': forging(HUGE) }, { limits: { disk_mib: 48 } })
      expect(huge).toMatchObject({ ending: 'error', tests: { total: 0, complete: false } })
      const linked = await run({
        'test_a.py': forging(`os.unlink(path); os.symlink('/etc/passwd', path)`),
      })
      expect(linked.tests).toMatchObject({ total: 0, complete: false })
    })

    it("the results of a caller's own command are read from its output", async () => {
      const outcome = await run(
        { 'calc.py': WRONG, 'test_calc.py': UNITTEST },
        { tests: { command: 'python3 -m unittest -q && echo "all" | cat' } },
      )
      expect(outcome).toMatchObject({
        ending: 'error',
        exitCode: 1,
        tests: {
          framework: 'unittest',
          command: 'python3 -m unittest -q && echo "all" | cat',
          total: 2,
          failed: 1,
          complete: false,
        },
      })
    })

    it('a path may name a project in a folder, or one of its files', async () => {
      const files = {
        'app/calc.py': RIGHT,
        'app/requirements.txt': '',
        'app/tests/test_calc.py': UNITTEST,
        'app/tests/test_more.py': UNITTEST,
        'other/test_x.py': UNITTEST,
      }
      expect((await run(files, { tests: { path: 'app' } })).tests).toMatchObject({ total: 4, passed: 4 })
      expect((await run(files, { tests: { path: 'app/tests/test_more.py' } })).tests).toMatchObject({
        command: 'python3 -m unittest tests/test_more.py',
        total: 2,
        passed: 2,
      })
      const wrong = await run({ ...files, 'app/calc.py': WRONG }, { tests: { path: 'app' } })
      expect(wrong.tests?.failures.map(({ file }) => file)).toEqual([
        'app/tests/test_calc.py',
        'app/tests/test_more.py',
      ])
    })

    it('an install is refused before a sandbox is opened when the policy allows no packages', async () => {
      expect(await run({ 'requirements.txt': 'six' }, { program: { type: 'install' } })).toMatchObject({
        ending: 'policy_denied',
        reason: 'packages_not_allowed',
        began: false,
        backend: null,
        failureReason: expect.stringContaining('packages.pypi'),
      })
    })
  })

needs('docker').describe('pytest in the image', { timeout: TEST_MS }, () => {
  it('passes, fails with file and line, and reports a file that cannot be collected', async () => {
    const files = { 'calc.py': RIGHT, 'tests/test_calc.py': PYTEST }
    expect(await tested('docker', files)).toMatchObject({
      ending: 'ok',
      tests: { framework: 'pytest', total: 3, passed: 3, complete: true },
    })
    const wrong = await tested('docker', { ...files, 'calc.py': WRONG })
    expect(wrong).toMatchObject({
      ending: 'error',
      tests: { total: 3, passed: 1, failed: 2, complete: true },
    })
    expect(wrong.tests?.failures).toMatchObject([
      { file: 'tests/test_calc.py', line: 6 },
      { file: 'tests/test_calc.py', line: 6 },
    ])
    const broken = await tested('docker', { ...files, 'tests/test_broken.py': 'def (:\n' })
    expect(broken).toMatchObject({ ending: 'error', tests: { errored: 1, complete: true } })
    expect(broken.tests?.failures).toMatchObject([{ file: 'tests/test_broken.py', line: 1 }])
    const none = await tested('docker', { 'pytest.ini': '[pytest]\n', 'test_x.py': '' })
    expect(none).toMatchObject({ ending: 'error', exitCode: 5, reason: 'no_tests' })
  })

  it('names the test in which a run ended, and a conftest.py that cannot be loaded', async () => {
    const source = (how: string): string => `import os, pytest
def test_a(): pass
def test_b():
    print('in it', flush=True)
    ${how}
`
    const ended = {
      total: 2,
      passed: 1,
      failed: 1,
      failures: [
        { name: 'test_x.py::test_b', file: 'test_x.py', line: 3, message: 'The test run ended in it.' },
      ],
      complete: false,
    }
    const files = { 'test_x.py': source('os._exit(0)') }
    const exited = await tested('docker', files)
    expect(exited).toMatchObject({ ending: 'error', exitCode: 0, reason: 'tests_failed', tests: ended })
    expect(exited.failureReason).toBe(
      '1 of 2 tests failed: test_x.py::test_b (test_x.py:3) The test run ended in it.',
    )
    expect(await tested('docker', files, { tests: { command: 'pytest -x' } })).toMatchObject({ tests: ended })
    const killed = { 'test_x.py': source('os.kill(os.getpid(), 11)') }
    expect(await tested('docker', killed)).toMatchObject({ ending: 'crashed', tests: ended })

    const clock = createManualClock()
    let isUp = false
    const onOutput = (_stream: string, text: string): void => {
      // Only once, because pytest shows that line again in its trace.
      if (isUp || !text.includes('in it')) return
      isUp = true
      void clock.advance(SOFT_MS)
    }
    const endless = {
      'pytest.ini': '[pytest]\naddopts = -s\n',
      'test_x.py': source('__import__("time").sleep(1000)'),
    }
    const stopped = await tested('docker', endless, {}, { clock, onOutput })
    expect(stopped).toMatchObject({ ending: 'soft_timeout', tests: ended })

    const broken = await tested('docker', { ...files, 'conftest.py': 'x = 1\nimport nothing_such\n' })
    expect(broken).toMatchObject({ ending: 'error', exitCode: 4, reason: 'tests_failed' })
    expect(broken.failureReason).toBe(
      "1 of 1 test failed (1 could not be run): conftest.py (conftest.py:2) ModuleNotFoundError: No module named 'nothing_such'",
    )
  })

  it('accepts options and a cache fixture, and leaves no cache files', async () => {
    const files = {
      'pytest.ini': '[pytest]\naddopts = --ff\n',
      'src/calc/__init__.py': RIGHT,
      'tests/test_calc.py': `${PYTEST}\ndef test_cache(cache):\n    cache.set("a/b", 1)\n`,
    }
    const outcome = await tested('docker', files, { artifacts: ['**/*'] })
    expect(outcome).toMatchObject({ ending: 'ok', tests: { total: 4, passed: 4, complete: true } })
    expect(outcome.artifacts.map(({ path }) => path).filter((path) => path.includes('cache/v/'))).toEqual([])
  })

  it('names the failures of a command with pytest, and adds no options to other commands', async () => {
    const files = { 'calc.py': WRONG, 'tests/test_calc.py': PYTEST, 'other/test_not.py': 'def test(): 1 / 0' }
    const wrong = await tested('docker', files, { tests: { command: 'python3 -m pytest -q tests | cat' } })
    expect(wrong).toMatchObject({
      ending: 'error',
      reason: 'tests_failed',
      tests: { framework: 'pytest', total: 3, failed: 2, complete: true },
    })
    expect(wrong.tests?.failures[0]).toMatchObject({ file: 'tests/test_calc.py', line: 6 })
    const other = await tested('docker', files, { tests: { command: 'echo instead of pytest' } })
    expect(other).toMatchObject({ ending: 'ok', tests: { total: 0, complete: false } })
  })
})
