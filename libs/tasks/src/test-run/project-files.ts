/** What lies in the folder of a project: names to decide by, and the text of the few files that say more. */
import { posix } from 'node:path'
import type { Sandbox } from '@cofferdam/contract'

export interface ProjectFiles {
  /** Relative to the project's folder, sorted; nothing below hidden folders, node_modules or virtual environments. */
  readonly paths: readonly string[]
  /** Null when it is not there, or longer than a manifest can be. */
  text(path: string): Promise<string | null>
}

/** The names by which tests and manifests are known; everything else does not matter here. */
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
/** A folder of 20,000 test files is no project of an agent; their names are some 2 MB. */
const MAX_PATHS = 20_000
/** The largest package.json files of public registries are a tenth of it. */
const MAX_TEXT_BYTES = 1024 * 1024

/**
 * Folders that hold other people's files, or none of interest: they are not entered, for they hold most names
 * of a project.
 */
const NOT_ENTERED = ['.*', 'node_modules', 'venv', 'site-packages', '__pycache__', 'target', 'vendor']

/** Looks into a sandbox, once for the names and once for each text. `folder` is '' for the work directory itself. */
export async function projectFiles(
  sandbox: Pick<Sandbox, 'list' | 'read'>,
  folder: string,
): Promise<ProjectFiles> {
  const prefix = folder === '' ? '' : `${folder}/`
  // A folder's own name is no glob; what its stand-ins match besides is left out below.
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
