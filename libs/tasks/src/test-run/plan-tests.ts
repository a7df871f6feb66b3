/** Turns a request for tests into the command that runs them, and the files that the command needs. */
import { posix } from 'node:path'
import {
  TEST_FRAMEWORKS,
  type Program,
  type ProgramFile,
  type Sandbox,
  type TestFramework,
} from '@cofferdam/contract'
import { PYTHON_PACKAGES_FOLDER } from '../install/plan-install.ts'
import { quoted } from '../shell-quote.ts'
import { TaskRefusal } from '../task-refusal.ts'
import { detectFramework } from './detect-framework.ts'
import { projectFiles, type ProjectFiles } from './project-files.ts'
import { ownCommand, reporterFiles, runnerOf, type ReportForm, type Runner } from './runners.ts'

export interface TestsPlan {
  framework: TestFramework
  /** The command that the caller sees. */
  shown: string
  /** What the sandbox runs. */
  program: Program
  files: ProgramFile[]
  /** Folder of the project. Empty for the work directory. */
  project: string
  /** Hidden folder for our files and the report. It is removed before anything is collected. */
  folder: string
  /** See Runner. Without a report, only the printed summary is known. */
  report: { path: string; form: ReportForm; isSure?: false } | null
}

/**
 * Plans a run. Throws TaskRefusal when nothing in the project looks like tests. `folder` is an unused name in
 * the work directory.
 */
export async function planTests(
  asked: Extract<Program, { type: 'tests' }>,
  sandbox: Pick<Sandbox, 'list' | 'read'>,
  folder: string,
): Promise<TestsPlan> {
  const { project, file } = await placeOf(asked.path, sandbox)
  const files = await projectFiles(sandbox, project)
  const detected = await detectFramework(files, asked.framework ?? named(asked.command), file)
  if (asked.command !== undefined)
    return planOf(
      folder,
      project,
      detected?.framework ?? 'npm',
      ownCommand(asked.command, detected?.framework),
    )
  if (detected === null) throw noTests(files, project)
  return planOf(folder, project, detected.framework, runnerOf(detected, file))
}

function noTests({ paths }: ProjectFiles, project: string): TaskRefusal {
  const where = project === '' ? 'the work directory' : project
  const seen = paths.length === 0 ? 'it is empty' : `it holds ${paths.slice(0, 8).join(', ')}`
  return new TaskRefusal(
    'error',
    'no_tests',
    `No tests were found in ${where}: ${seen}. Name the program's framework, path or command.`,
  )
}

/**
 * Finds the project of `path`. A folder is its own project. A test file belongs to the nearest folder above
 * it that has a manifest.
 */
async function placeOf(
  path: string | undefined,
  sandbox: Pick<Sandbox, 'list'>,
): Promise<{ project: string; file: string | null }> {
  if (path === undefined) return { project: '', file: null }
  const isFile = (await sandbox.list([path], 1)).length > 0
  if (!isFile) return { project: path, file: null }
  const ending = posix.extname(path)
  const above: string[] = []
  for (let at = posix.dirname(path); at !== '.'; at = posix.dirname(at)) above.push(at)
  const manifests = MANIFESTS[ending] ?? MANIFESTS['.js'] ?? []
  const found = await sandbox.list(
    above.flatMap((at) => manifests.map((name) => `${at}/${name}`)),
    above.length * manifests.length,
  )
  const folders = new Set(found.map((entry) => posix.dirname(entry.path)))
  const project = above.find((at) => folders.has(at)) ?? ''
  return { project, file: project === '' ? path : path.slice(project.length + 1) }
}

const MANIFESTS: Readonly<Record<string, readonly string[]>> = {
  '.py': ['pyproject.toml', 'setup.cfg', 'setup.py', 'pytest.ini', 'tox.ini', 'requirements.txt'],
  '.go': ['go.mod'],
  '.rs': ['Cargo.toml'],
  '.js': ['package.json'],
}

/** The framework that a command names. */
function named(command: string | undefined): TestFramework | undefined {
  if (command === undefined) return undefined
  if (/\bgo test\b/.test(command)) return 'go'
  if (/\bcargo (test|nextest)\b/.test(command)) return 'cargo'
  if (/\bnode\b.*--test\b/.test(command)) return 'node:test'
  return TEST_FRAMEWORKS.find(
    (name) => name.length > 3 && name !== 'cargo' && new RegExp(`\\b${name}\\b`).test(command),
  )
}

/** Makes packages below `src` importable before installed copies, as an editable install would. */
const SRC_LAYOUT =
  'for p in src/*/__init__.py; do if [ -e "$p" ] && [ ! -e src/__init__.py ]; then ' +
  'export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"; fi; break; done'

function planOf(folder: string, project: string, framework: TestFramework, runner: Runner): TestsPlan {
  const shell = [
    `R="$PWD/${folder}"`,
    `W="$PWD"`,
    'pwd -P > "$R/root"',
    `if [ -d "$W/${PYTHON_PACKAGES_FOLDER}" ]; then export PYTHONPATH="$W/${PYTHON_PACKAGES_FOLDER}"; fi`,
    ...(project === '' ? [] : [`cd -- ${quoted(project)} || exit 1`]),
    ...(framework === 'pytest' || framework === 'unittest' ? [SRC_LAYOUT] : []),
    'export PATH="$PWD/node_modules/.bin:$W/node_modules/.bin:$PATH" CI=1',
    runner.command,
  ]
  return {
    framework,
    shown: runner.shown,
    program: { type: 'command', shell: shell.join('\n') },
    files: [
      { path: `${folder}/root`, bytes: new Uint8Array() },
      ...reporterFiles(runner).map(({ name, bytes }) => ({ path: `${folder}/${name}`, bytes })),
    ],
    project,
    folder,
    report: runner.report === null ? null : { ...runner.report, path: `${folder}/${runner.report.name}` },
  }
}
