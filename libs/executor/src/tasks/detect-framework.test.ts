/** Which framework a project is taken for, and the command that comes of it. */
import type { Program, TestFramework } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { NOTHING_SEEN } from './package-access.ts'
import { planInstall } from './plan-install.ts'
import { planTests } from './plan-tests.ts'
import { readManifest, testScript } from './test-script.ts'

/** As the guest agent has it: a star takes a leading dot too. */
const matches = (glob: string, path: string): boolean =>
  new RegExp(
    `^${glob.replaceAll(/\*\*\/|\*\*|\*|[^\w*/]/g, (part) => ({ '**/': '(.*/)?', '**': '.*', '*': '[^/]*' })[part] ?? `\\${part}`)}$`,
  ).test(path)

/** The two calls that planning makes, over files in memory. */
function holding(files: Record<string, string>) {
  return {
    list: async (globs: readonly string[], max: number) =>
      Object.keys(files)
        .filter((path) => globs.some((glob) => matches(glob, path)))
        .filter((path) => !globs.some((glob) => glob.startsWith('!') && matches(`${glob.slice(1)}/**`, path)))
        .slice(0, max)
        .map((path) => ({ path, size: files[path]?.length ?? 0 })),
    read: async (path: string) => Buffer.from(files[path] ?? ''),
  }
}

const plan = (files: Record<string, string>, asked: Partial<Extract<Program, { type: 'tests' }>> = {}) =>
  planTests({ type: 'tests', ...asked }, holding(files), '.x')

const shellOf = ({ program }: { program: Program }): string =>
  program.type === 'command' ? (program.shell ?? '') : ''

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
  ])('takes a project for %s by %s', async (framework, _by, files) => {
    expect((await plan(files)).framework).toBe(framework)
  })

  it('does not look into installed packages', async () => {
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

  it('quotes what comes from the caller', async () => {
    const files = { "a'b/test_$(x).py": 'import unittest', "a'b/setup.py": '' }
    const { program } = await plan(files, { path: "a'b/test_$(x).py" })
    const shell = shellOf({ program })
    expect(shell).toContain(`cd -- 'a'\\''b' || exit 1`)
    expect(shell).toMatch(/ 'test_\$\(x\)\.py'$/)
  })

  it('survives manifests that are none', async () => {
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

  it('has what it calls put in its place, and what comes before it in front', () => {
    const others = { pretest: 'npm run lint', lint: 'xo', unit: 'mocha', loop: 'npm run loop' }
    expect(withOptions('npm run unit', others)).toBe('xo && mocha --json')
    expect(withOptions('npm run loop', others)).toBe('npm run lint && npm run loop')
  })
})

describe('an install', () => {
  const all = { packages: { pypi: ['*'], npm: ['*'] } }
  const access = {
    unavailable: () => null,
    environment: () => ({ PIP_INDEX_URL: 'http://packages/simple/' }),
    redirectLock: (text: string) => text.replaceAll('https://registry.example/', 'http://packages/npm/'),
    seen: () => NOTHING_SEEN,
  }
  const install = (names: string[], asked: object = {}, tenant = all) =>
    planInstall(
      { type: 'install', ...asked },
      holding(Object.fromEntries(names.map((name) => [name, '']))),
      tenant,
      access,
    )

  it.each([
    [['requirements.txt', 'package.json'], 'pip', 'pip install -r requirements.txt'],
    [['pyproject.toml'], 'pip', 'pip install .'],
    [['package.json', 'package-lock.json'], 'npm', 'npm ci'],
    [['package.json'], 'npm', 'npm install'],
    [['package.json', 'yarn.lock'], 'yarn', 'yarn install --frozen-lockfile'],
    [['package.json', 'pnpm-lock.yaml', 'package-lock.json'], 'pnpm', 'pnpm install --frozen-lockfile'],
  ])('of %j is by %s', async (names, manager, shown) => {
    expect(await install(names)).toMatchObject({ manager, shown })
  })

  it('may be told the manager and the folder', async () => {
    expect(await install(['package.json'], { manager: 'yarn' })).toMatchObject({ shown: 'yarn install' })
    const below = await install(['app/requirements.txt'], { path: 'app' })
    expect(shellOf(below)).toMatch(/cd -- app .*--target \.\.\/\.packages -r requirements\.txt$/s)
    expect(shellOf(below)).toContain('export PIP_INDEX_URL=http://packages/simple/')
  })

  it.each([
    ['yarn.lock', '# yarn lockfile v1\n', 'yarn install --frozen-lockfile', 'yarn@1'],
    ['yarn.lock', '__metadata:\n  version: 6\n', 'yarn install --no-immutable', '@yarnpkg/cli-dist@3'],
    ['yarn.lock', '__metadata:\n  version: 8\n', 'yarn install --no-immutable', '@yarnpkg/cli-dist@4'],
    ['pnpm-lock.yaml', "lockfileVersion: '9.0'\n", 'pnpm install --frozen-lockfile', 'pnpm@10'],
    ['pnpm-lock.yaml', "lockfileVersion: '6.0'\n", 'pnpm install --frozen-lockfile', 'pnpm@9'],
  ])('by %s of %j is %s, of %s where it has to be fetched', async (name, text, shown, fetched) => {
    const files = holding({ 'package.json': '', [name]: text })
    const planned = await planInstall({ type: 'install' }, files, all, access)
    expect(planned.shown).toBe(shown)
    expect(shellOf(planned)).toContain(`exec npx --yes --package ${fetched} ${planned.manager} install`)
  })

  it('goes out by the proxy of the sandbox, whatever an .npmrc of the project says', async () => {
    expect(shellOf(await install(['package.json']))).toContain('export npm_config_proxy="$HTTP_PROXY" ')
    expect(shellOf(await install(['requirements.txt']))).not.toContain('npm_config_proxy')
  })

  it('takes yarn of the sandbox only when it reads the lock file', async () => {
    const shell = async (text: string): Promise<string> =>
      shellOf(await planInstall({ type: 'install' }, holding({ 'yarn.lock': text }), all, access))
    expect(await shell('# yarn lockfile v1\n')).toContain(
      'in 1.*) exec yarn install --frozen-lockfile --non-interactive;; esac',
    )
    expect(await shell('__metadata:\n  version: 8\n')).toContain(
      'in [2-9].*) exec yarn install --no-immutable;; esac',
    )
  })

  it.each(['yarn.lock', 'pnpm-lock.yaml'])(
    'by %s has its addresses moved, and gives the file back',
    async (name) => {
      const own = 'resolved "https://registry.example/a/-/a-1.0.0.tgz"\n'
      const moved = 'resolved "http://packages/npm/a/-/a-1.0.0.tgz"\n'
      const files = { 'app/package.json': '', [`app/${name}`]: own }
      const { lock } = await planInstall({ type: 'install', path: 'app' }, holding(files), all, access)
      expect(lock?.file).toEqual({ path: `app/${name}`, bytes: Buffer.from(moved) })
      const restored = async (left: string): Promise<unknown[]> => {
        const calls: unknown[] = []
        await lock?.restore({
          read: (asked: string) => Promise.resolve((calls.push(asked), Buffer.from(left))),
          write: (files: unknown) => Promise.resolve(void calls.push(files)),
        })
        return calls
      }
      const at = `app/${name}`
      // Read again, as files that were written wait for the next request.
      expect(await restored(moved)).toEqual([at, [{ path: at, bytes: Buffer.from(own) }], at])
      expect(await restored('changed by the install')).toEqual([at])
      const here = await planInstall({ type: 'install' }, holding({ [name]: moved }), all, access)
      expect(here.lock).toBeNull()
    },
  )

  it('is refused with what is missing: a manifest, a rule, a mirror', async () => {
    await expect(install(['main.py'])).rejects.toMatchObject({
      reason: 'no_manifest',
      message: expect.stringContaining('requirements.txt'),
    })
    const onlyNpm = { packages: { pypi: [], npm: ['*'] } }
    await expect(install(['requirements.txt'], {}, onlyNpm)).rejects.toMatchObject({
      ending: 'policy_denied',
      message: expect.stringContaining('packages.pypi'),
    })
    const files = holding({ 'package.json': '' })
    await expect(planInstall({ type: 'install' }, files, all, null)).rejects.toMatchObject({
      ending: 'provisioning',
      reason: 'packages_unavailable',
    })
    const noMirror = { ...access, unavailable: () => 'no mirror is configured' }
    await expect(planInstall({ type: 'install' }, files, all, noMirror)).rejects.toThrow(
      'no mirror is configured',
    )
  })
})
