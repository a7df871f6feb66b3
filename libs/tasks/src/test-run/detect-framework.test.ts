/** Which framework a project's tests use, and with which command they run. */
import type { Program, TestFramework } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { projectInMemory, shellOf } from '../../test/project-in-memory.ts'
import { planTests } from './plan-tests.ts'
import { readManifest, testScript } from './test-script.ts'

const plan = (files: Record<string, string>, asked: Partial<Extract<Program, { type: 'tests' }>> = {}) =>
  planTests({ type: 'tests', ...asked }, projectInMemory(files), '.x')

const packageOf = (fields: object): string => JSON.stringify(fields)

describe('detection', () => {
  it.each<[TestFramework, string, Record<string, string>]>([
    ['cargo', 'Cargo.toml', { 'Cargo.toml': '', 'package.json': packageOf({ scripts: { test: 'jest' } }) }],
    ['go', 'go.mod', { 'go.mod': 'module m', 'm_test.go': '' }],
    ['jest', 'its script', { 'package.json': packageOf({ scripts: { test: 'cross-env A=1 jest --ci' } }) }],
    ['mocha', 'its script', { 'package.json': packageOf({ scripts: { test: 'nyc mocha test/' } }) }],
    [
      'node:test',
      'its script',
      { 'package.json': packageOf({ scripts: { test: 'node --import tsx --test' } }) },
    ],
    [
      'vitest',
      'its script of a script',
      {
        'package.json': packageOf({
          scripts: { test: 'npm run build && npm run unit', build: 'tsc', unit: 'vitest' },
        }),
      },
    ],
    ['npm', 'a script of no known runner', { 'package.json': packageOf({ scripts: { test: 'ava' } }) }],
    ['npm', 'a script with a pipe', { 'package.json': packageOf({ scripts: { test: 'mocha | tee x' } }) }],
    ['npm', 'two runners', { 'package.json': packageOf({ scripts: { test: 'mocha && jest' } }) }],
    ['vitest', 'its configuration', { 'vitest.config.ts': '', 'package.json': '{}' }],
    ['jest', 'its configuration', { 'package.json': packageOf({ jest: {} }) }],
    ['mocha', 'its configuration', { '.mocharc.json': '', 'test/a.js': '' }],
    [
      'jest',
      'a dependency',
      { 'package.json': packageOf({ devDependencies: { jest: '1' } }), 'a.test.js': '' },
    ],
    ['pytest', 'pytest.ini', { 'pytest.ini': '', 'test_a.py': 'import unittest' }],
    ['pytest', 'pyproject.toml', { 'pyproject.toml': '[tool.pytest.ini_options]', 'tests/test_a.py': '' }],
    ['pytest', 'a requirement', { 'requirements.txt': 'pytest>=7', 'test_a.py': '' }],
    ['pytest', 'a bare function', { 'tests/test_a.py': 'def test_a():\n  pass' }],
    ['pytest', 'a class of no base', { 'a_test.py': 'class TestA:\n  def test_a(self): pass' }],
    ['unittest', 'nothing else', { 'test_a.py': 'import unittest\nclass T(unittest.TestCase): pass' }],
    ['node:test', 'an import', { 'a.test.mjs': "import test from 'node:test'" }],
    ['vitest', 'an import', { 'src/a.spec.ts': "import { it } from 'vitest'" }],
    ['node:test', 'nothing else', { 'test/a.js': '' }],
    [
      'pytest',
      'npm has no tests',
      {
        'package.json': packageOf({ scripts: { test: 'echo "Error: no test specified" && exit 1' } }),
        'conftest.py': '',
      },
    ],
  ])('finds %s by %s', async (framework, _by, files) => {
    expect((await plan(files)).framework).toBe(framework)
  })

  it('ignores installed packages', async () => {
    const files = { 'main.js': '', 'node_modules/a/test/a.test.js': '', '.packages/b/test_b.py': '' }
    await expect(plan(files)).rejects.toMatchObject({ reason: 'no_tests', ending: 'error' })
  })

  it('is overridden by framework, by command and by path', async () => {
    const files = { 'Cargo.toml': '', 'py/test_a.py': 'import unittest', 'py/setup.py': '' }
    expect((await plan(files, { framework: 'pytest' })).framework).toBe('pytest')
    expect(await plan(files, { command: 'make test | grep -v x' })).toMatchObject({
      shown: 'make test | grep -v x',
      report: null,
    })
    expect((await plan(files, { command: 'tox -- pytest -x' })).framework).toBe('pytest')
    const one = await plan(files, { path: 'py/test_a.py' })
    expect(one).toMatchObject({
      framework: 'unittest',
      project: 'py',
      shown: 'python3 -m unittest test_a.py',
    })
  })

  it('quotes text from the caller', async () => {
    const files = { "a'b/test_$(x).py": 'import unittest', "a'b/setup.py": '' }
    const { program } = await plan(files, { path: "a'b/test_$(x).py" })
    const shell = shellOf({ program })
    expect(shell).toContain(`cd -- 'a'\\''b' || exit 1`)
    expect(shell).toMatch(/ 'test_\$\(x\)\.py'$/)
  })

  it('ignores malformed manifests', async () => {
    for (const text of ['', '[]', 'null', '{"scripts":7}', '{"scripts":{"test":{}}}', '\u0000'])
      await expect(plan({ 'package.json': text })).rejects.toMatchObject({ reason: 'no_tests' })
  })
})

describe('a test script', () => {
  const withOptions = (test: string, others: Record<string, string> = {}): string | undefined => {
    const manifest = readManifest(packageOf({ scripts: { test, ...others } }))
    return manifest === null ? undefined : testScript(manifest)?.withOptions('--json')
  }
  it.each([
    ['jest --ci', 'jest --ci --json'],
    ['tsc && mocha "a && b"', 'tsc && mocha "a && b" --json'],
    ['mocha --reporter dot test/', 'mocha test/ --json'],
    ['mocha -- test/', 'mocha --json -- test/'],
    ['node --test test/*.js', 'node --test --json test/*.js'],
    ['node --test --test-reporter=spec a.js', 'node --test --json a.js'],
    ['ava --tap', 'ava --tap'],
    ['mocha || true', 'mocha || true'],
  ])('%s becomes %s', (script, expected) => {
    expect(withOptions(script)).toBe(expected)
  })

  it('is not read from a manifest with more than 1,000 scripts', () => {
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`s${n}`, 'x']))
    expect(withOptions('mocha', many)).toBeUndefined()
    delete many['s0']
    expect(withOptions('mocha', many)).toBe('mocha --json')
  })

  it('gets the scripts that it calls inlined, and its pretest script in front', () => {
    const others = { pretest: 'npm run lint', lint: 'xo', unit: 'mocha', loop: 'npm run loop' }
    expect(withOptions('npm run unit', others)).toBe('xo && mocha --json')
    expect(withOptions('npm run loop', others)).toBe('npm run lint && npm run loop')
  })
})
