/**
 * Which framework a project's tests are written for. The first match decides:
 *
 *   1. `framework` of the request
 *   2. `path` names one file: its ending, then what it imports
 *   3. Cargo.toml → cargo, go.mod → go
 *   4. package.json has a `test` script: the runner it calls (jest, vitest, mocha, node --test), else npm
 *   5. configuration of vitest, jest, mocha or pytest, in this order
 *   6. package.json depends on vitest, jest or mocha, and there are files that look like tests
 *   7. Python test files: pytest when one of them needs it or a manifest names it, else unittest
 *   8. JavaScript or TypeScript test files: what they import, else node:test
 */
import type { TestFramework } from '@cofferdam/contract'
import type { ProjectFiles } from './project-files.ts'
import { readManifest, testScript, type Manifest, type TestScript } from './test-script.ts'

export interface Detected {
  framework: TestFramework
  /** The package's own test script, if that is what runs. */
  script: TestScript | null
}

const PYTHON_TEST = /(^|\/)(test[^/]*|[^/]*_test)\.py$/
const SCRIPT_TEST =
  /(^|\/)(test|tests|__tests__)\/.*\.[cm]?[jt]sx?$|(^|\/|[.\-_])(test|spec)\.[cm]?[jt]sx?$|(^|\/)test[-_][^/]*\.[cm]?[jt]sx?$/

/** The most files that are read to tell frameworks of one language apart. */
const MAX_READ = 32

/** Null when nothing looks like tests. `file` is a test file relative to the project's folder, or null. */
export async function detectFramework(
  files: ProjectFiles,
  named: TestFramework | undefined,
  file: string | null,
): Promise<Detected | null> {
  const manifest = readManifest(await files.text('package.json'))
  const script = file === null && manifest !== null ? testScript(manifest) : null
  if (named !== undefined)
    return { framework: named, script: script !== null && fits(script, named) ? script : null }
  if (file !== null) return bare(await frameworkOfFile(files, file, manifest))
  if (has(files, 'Cargo.toml')) return bare('cargo')
  if (has(files, 'go.mod')) return bare('go')
  if (script !== null) return { framework: script.runner ?? 'npm', script }
  return bare(
    (await configured(files, manifest)) ??
      dependedOn(files, manifest) ??
      (await pythonTests(files)) ??
      (await scriptTests(files, manifest)),
  )
}

const bare = (framework: TestFramework | null): Detected | null =>
  framework === null ? null : { framework, script: null }

const fits = ({ runner }: TestScript, named: TestFramework): boolean => runner === named || named === 'npm'

const has = (files: ProjectFiles, path: string): boolean => files.paths.includes(path)

async function frameworkOfFile(
  files: ProjectFiles,
  file: string,
  manifest: Manifest | null,
): Promise<TestFramework | null> {
  if (file.endsWith('.go')) return 'go'
  if (file.endsWith('.rs')) return 'cargo'
  const text = (await files.text(file)) ?? ''
  if (file.endsWith('.py')) return (await hasPytestConfig(files)) || needsPytest(text) ? 'pytest' : 'unittest'
  if (/\.[cm]?[jt]sx?$/.test(file)) return imported(text) ?? dependency(manifest) ?? 'node:test'
  return null
}

async function configured(files: ProjectFiles, manifest: Manifest | null): Promise<TestFramework | null> {
  const top = files.paths.filter((path) => !path.includes('/'))
  if (top.some((path) => /^vitest\.(config|workspace)\./.test(path))) return 'vitest'
  if (top.some((path) => path.startsWith('jest.config.')) || manifest?.jest !== undefined) return 'jest'
  if (top.some((path) => path.startsWith('.mocharc')) || manifest?.mocha !== undefined) return 'mocha'
  return (await hasPytestConfig(files)) ? 'pytest' : null
}

async function hasPytestConfig(files: ProjectFiles): Promise<boolean> {
  if (has(files, 'pytest.ini') || has(files, '.pytest.ini')) return true
  if (files.paths.some((path) => /(^|\/)conftest\.py$/.test(path))) return true
  const sections: [string, RegExp][] = [
    ['pyproject.toml', /^\[tool\.pytest[\].]/m],
    ['tox.ini', /^\[pytest\]/m],
    ['setup.cfg', /^\[tool:pytest\]/m],
  ]
  for (const [path, section] of sections) if (section.test((await files.text(path)) ?? '')) return true
  return false
}

function dependency(manifest: Manifest | null): TestFramework | null {
  const all = { ...manifest?.dependencies, ...manifest?.devDependencies }
  for (const name of ['vitest', 'jest', 'mocha'] as const) if (Object.hasOwn(all, name)) return name
  return null
}

function dependedOn(files: ProjectFiles, manifest: Manifest | null): TestFramework | null {
  return files.paths.some((path) => SCRIPT_TEST.test(path)) ? dependency(manifest) : null
}

async function pythonTests(files: ProjectFiles): Promise<TestFramework | null> {
  const tests = files.paths.filter((path) => PYTHON_TEST.test(path))
  if (tests.length === 0) return null
  const manifests = [
    'requirements.txt',
    'requirements-dev.txt',
    'dev-requirements.txt',
    'pyproject.toml',
    'setup.py',
    'setup.cfg',
  ]
  for (const path of manifests) if (/\bpytest\b/.test((await files.text(path)) ?? '')) return 'pytest'
  for (const path of tests.slice(0, MAX_READ))
    if (needsPytest((await files.text(path)) ?? '')) return 'pytest'
  return 'unittest'
}

/**
 * Whether unittest would miss tests of the file: the file imports pytest, or has test functions or test
 * classes without a base class.
 */
function needsPytest(text: string): boolean {
  return (
    /^\s*(import|from)\s+pytest\b/m.test(text) ||
    /^(async\s+)?def\s+test\w*\s*\(/m.test(text) ||
    /^class\s+Test\w*\s*(\(\s*(object\s*)?\))?\s*:/m.test(text)
  )
}

async function scriptTests(files: ProjectFiles, manifest: Manifest | null): Promise<TestFramework | null> {
  const tests = files.paths.filter((path) => SCRIPT_TEST.test(path))
  if (tests.length === 0) return null
  for (const path of tests.slice(0, MAX_READ)) {
    const framework = imported((await files.text(path)) ?? '')
    if (framework !== null) return framework
  }
  return dependency(manifest) ?? 'node:test'
}

function imported(text: string): TestFramework | null {
  const from = (name: string): boolean => new RegExp(`(from|import|require\\()\\s*['"]${name}['"]`).test(text)
  if (from('node:test')) return 'node:test'
  if (from('vitest')) return 'vitest'
  if (from('@jest/globals') || /\bjest\.(fn|mock|spyOn)\(/.test(text)) return 'jest'
  return from('mocha') ? 'mocha' : null
}
