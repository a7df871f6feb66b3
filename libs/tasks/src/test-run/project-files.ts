/** The files of a project: all names that matter, and the text of a few files. */
import { posix } from 'node:path'
import type { Sandbox } from '@cofferdam/contract'

export interface ProjectFiles {
  /** Sorted, relative to the project's folder. No hidden folders, node_modules or virtual environments. */
  readonly paths: readonly string[]
  /** Null when the file is missing, or longer than any manifest. */
  text(path: string): Promise<string | null>
}

/** The names of tests and manifests. No other file matters here. */
const WANTED = [
  '*',
  'test/**',
  'tests/**',
  '**/__tests__/**',
  '**/test*.py',
  '**/*_test.py',
  '**/conftest.py',
  '**/*.test.*',
  '**/*.spec.*',
  '**/*_test.go',
]
/** No agent has a project of 20,000 test files. Their names have about 2 MB. */
const MAX_PATHS = 20_000
/** Ten times the largest package.json files of public registries. */
const MAX_TEXT_BYTES = 1024 * 1024

/**
 * Folders with installed or generated files, or without tests. They are not entered, because they have most
 * of a project's names.
 */
const NOT_ENTERED = ['.*', 'node_modules', 'venv', 'site-packages', '__pycache__', 'target', 'vendor']

/** Reads a project: once for the names and once per text. `folder` is '' for the work directory. */
export async function projectFiles(
  sandbox: Pick<Sandbox, 'list' | 'read'>,
  folder: string,
): Promise<ProjectFiles> {
  const prefix = folder === '' ? '' : `${folder}/`
  // The folder's name must not act as a glob, so `?` replaces its special characters. Paths that match only
  // because of a `?` are removed below.
  const literal = prefix.replaceAll(/^!|\*/g, '?')
  const globs = [
    ...WANTED.map((glob) => literal + glob),
    ...NOT_ENTERED.map((name) => `!${literal}**/${name}`),
  ]
  const entries = await sandbox.list(globs, MAX_PATHS)
  const paths = entries
    .filter(({ path }) => path.startsWith(prefix))
    .map(({ path }) => path.slice(prefix.length))
    .toSorted()
  const known = new Set(paths)
  return {
    paths,
    async text(path) {
      const normal = posix.normalize(path)
      if (!known.has(normal)) return null
      const bytes = await sandbox.read(prefix + normal, MAX_TEXT_BYTES).catch(() => null)
      return bytes === null ? null : Buffer.from(bytes).toString('utf8')
    },
  }
}
