/**
 * From a request for tests to the command that runs them. Pure but for what it looks up in the project.
 *
 * The command leaves the framework's own report in a hidden folder of the work directory, which is taken out before
 * anything else is collected. Whoever runs the tests can forge that report: it tells the caller about his own code
 * and is believed about nothing else.
 */
import { readFileSync } from 'node:fs'
import { posix } from 'node:path'
import {
  TEST_FRAMEWORKS,
  type Program,
  type ProgramFile,
  type Sandbox,
  type TestFramework,
} from '@cofferdam/contract'
import { detectFramework, type Detected } from './detect-framework.ts'
import { projectFiles, type ProjectFiles } from './project-files.ts'
import { quoted } from './shell-quote.ts'
import { TaskRefusal } from './task-refusal.ts'

export type ReportForm = 'events' | 'jest' | 'go' | 'cargo'

export interface TestsPlan {
  type: 'tests'
  framework: TestFramework
  /** What the caller reads as the command that ran. */
  shown: string
  /** What the sandbox runs. */
  program: Program
  files: ProgramFile[]
  /** Folder of the project, '' for the work directory. */
  project: string
  /** Hidden folder that holds our files and the report. */
  folder: string
  /** Null when the framework writes none: then its printed summary is all there is. Not sure where a command may take none of our options. */
  report: { path: string; form: ReportForm; isSure?: false } | null
}

/** Where an install puts Python packages; see plan-install.ts. */
export const PYTHON_PACKAGES_FOLDER = '.packages'

/** Files of ours that a run takes along, by their names in reporters/. */
const REPORTERS = {
  pytest: filesOf(
    'cofferdam_report.py',
    'cofferdam_report-0.dist-info/METADATA',
    'cofferdam_report-0.dist-info/entry_points.txt',
  ),
  unittest: filesOf('unittest-report.py'),
  node: filesOf('node-report.mjs'),
  mocha: filesOf('mocha-report.cjs'),
  tee: filesOf('tee-report.py'),
}

function filesOf(...names: string[]): { name: string; bytes: Buffer }[] {
  return names.map((name) => ({ name, bytes: readFileSync(new URL(`reporters/${name}`, import.meta.url)) }))
}

/** Our plugin of pytest is found by the path, also by a command's own pytest, and reports where the environment says. */
const PYTEST_REPORT = 'export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$R" COFFERDAM_REPORT="$R/report.jsonl"'

interface Runner {
  /** `$R` is the hidden folder, absolute; it needs its quotes. */
  command: string
  shown: string
  reporter?: keyof typeof REPORTERS
  report: { name: string; form: ReportForm; isSure?: false } | null
}

/** Plans a run. Throws TaskRefusal when there is nothing that looks like tests. `folder` is free in the work directory. */
export async function planTests(
  asked: Extract<Program, { type: 'tests' }>,
  sandbox: Pick<Sandbox, 'list' | 'read'>,
  folder: string,
): Promise<TestsPlan> {
  const { project, file } = await placeOf(asked.path, sandbox)
  const files = await projectFiles(sandbox, project)
  const detected = await detectFramework(files, asked.framework ?? named(asked.command), file)
  if (asked.command !== undefined)
    return planOf(folder, project, detected?.framework ?? 'npm', ownCommand(asked.command, detected))
  if (detected === null) throw noTests(files, project)
  return planOf(folder, project, detected.framework, runnerOf(detected, file))
}

/** A command of the caller: read by what it prints, and by a report where the environment alone makes its runner write one. */
function ownCommand(command: string, detected: Detected | null): Runner {
  const own = { command: `eval ${quoted(command)}`, shown: command, report: null }
  if (detected?.framework !== 'pytest') return own
  return {
    ...own,
    command: `${PYTEST_REPORT}\n${own.command}`,
    reporter: 'pytest',
    report: { name: 'report.jsonl', form: 'events', isSure: false },
  }
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

/** A path with an ending is a test file, and its project is the nearest folder above it with a manifest. */
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

/** The framework that a command names by its words. */
function named(command: string | undefined): TestFramework | undefined {
  if (command === undefined) return undefined
  if (/\bgo test\b/.test(command)) return 'go'
  if (/\bcargo (test|nextest)\b/.test(command)) return 'cargo'
  if (/\bnode\b.*--test\b/.test(command)) return 'node:test'
  return TEST_FRAMEWORKS.find(
    (name) => name.length > 3 && name !== 'cargo' && new RegExp(`\\b${name}\\b`).test(command),
  )
}

function runnerOf({ framework, script }: Detected, file: string | null): Runner {
  const only = file === null ? '' : ` ${quoted(file)}`
  switch (framework) {
    case 'pytest':
      return {
        // The cache goes into our folder: without its plugin a project's --ff is no option, and its fixture is missing.
        // And -p for a project that loads no plugins but those it names.
        command: `${PYTEST_REPORT}\nexec python3 -m pytest -p cofferdam_report -o cache_dir="$R/cache" --rootdir=.${only}`,
        shown: `python3 -m pytest${only}`,
        reporter: 'pytest',
        report: { name: 'report.jsonl', form: 'events' },
      }
    case 'unittest':
      return {
        command: `exec python3 "$R/unittest-report.py" "$R/report.jsonl"${only}`,
        shown: `python3 -m unittest${only}`,
        reporter: 'unittest',
        report: { name: 'report.jsonl', form: 'events' },
      }
    case 'go': {
      const what = file === null ? './...' : quoted(`./${posix.dirname(file)}`)
      return {
        command: `exec python3 "$R/tee-report.py" go "$R/report.jsonl" go test -json ${what}`,
        shown: `go test ${what}`,
        reporter: 'tee',
        report: { name: 'report.jsonl', form: 'go' },
      }
    }
    case 'cargo': {
      const one = file === null ? null : /^tests\/([\w-]+)\.rs$/.exec(file)
      const what = one === null ? '' : ` --test ${one[1]}`
      return {
        command: `exec python3 "$R/tee-report.py" text "$R/report.txt" cargo test --no-fail-fast${what}`,
        shown: `cargo test --no-fail-fast${what}`,
        reporter: 'tee',
        report: { name: 'report.txt', form: 'cargo' },
      }
    }
    case 'npm':
      return { command: script?.withOptions('') ?? 'npm test', shown: 'npm test', report: null }
    default:
      return nodeRunner(framework, script, only)
  }
}

type NodeFramework = 'jest' | 'vitest' | 'mocha' | 'node:test'

const NODE_RUNNERS: Record<NodeFramework, Omit<Runner, 'command'> & { options: string }> = {
  jest: {
    shown: 'jest',
    options: '--json --outputFile="$R/report.json"',
    report: { name: 'report.json', form: 'jest' },
  },
  vitest: {
    shown: 'vitest run',
    // As an option, for a script may say only `vitest`, which would watch.
    options: '--run --reporter=default --reporter=json --outputFile.json="$R/report.json"',
    report: { name: 'report.json', form: 'jest' },
  },
  mocha: {
    shown: 'mocha',
    options: '--reporter "$R/mocha-report.cjs"',
    reporter: 'mocha',
    report: { name: 'report.jsonl', form: 'events' },
  },
  'node:test': {
    shown: 'node --test',
    options:
      '--test-reporter=spec --test-reporter-destination=stdout ' +
      '--test-reporter="$R/node-report.mjs" --test-reporter-destination="$R/report.jsonl"',
    reporter: 'node',
    report: { name: 'report.jsonl', form: 'events' },
  },
}

function nodeRunner(framework: NodeFramework, script: Detected['script'], only: string): Runner {
  const { options, ...runner } = NODE_RUNNERS[framework]
  if (script !== null) return { ...runner, shown: 'npm test', command: script.withOptions(options) }
  const command = framework === 'vitest' ? 'vitest' : runner.shown
  return { ...runner, shown: `${runner.shown}${only}`, command: `exec ${command} ${options}${only}` }
}

/** Packages below `src` are found as an editable install of the project would make them: before an older copy of them. */
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
  const own = runner.reporter === undefined ? [] : REPORTERS[runner.reporter]
  return {
    type: 'tests',
    framework,
    shown: runner.shown,
    program: { type: 'command', shell: shell.join('\n') },
    files: [
      { path: `${folder}/root`, bytes: new Uint8Array() },
      ...own.map(({ name, bytes }) => ({ path: `${folder}/${name}`, bytes })),
    ],
    project,
    folder,
    report: runner.report === null ? null : { ...runner.report, path: `${folder}/${runner.report.name}` },
  }
}
