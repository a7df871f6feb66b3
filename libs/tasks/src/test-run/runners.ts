/**
 * How each framework is run, and how its report is made. The command leaves the report in a hidden folder of
 * the work directory. Whoever runs the tests can forge it, so it counts only for those tests.
 */
import { readFileSync } from 'node:fs'
import { posix } from 'node:path'
import type { TestFramework } from '@cofferdam/contract'
import { quoted } from '../shell-quote.ts'
import type { Detected } from './detect-framework.ts'

/** How to read a report: our reporters' JSON lines, jest's JSON, `go test -json`, or cargo's output. */
export type ReportForm = 'events' | 'jest' | 'go' | 'cargo'

/** Our files for a run, from src/reporters. They are all directly in the hidden folder. */
const REPORTERS = {
  pytest: filesOf(
    'pytest/',
    'cofferdam_report.py',
    'cofferdam_report-0.dist-info/METADATA',
    'cofferdam_report-0.dist-info/entry_points.txt',
  ),
  unittest: filesOf('', 'unittest-report.py'),
  node: filesOf('', 'node-report.mjs'),
  mocha: filesOf('', 'mocha-report.cjs'),
  tee: filesOf('', 'tee-report.py'),
}

function filesOf(folder: string, ...names: string[]): { name: string; bytes: Buffer }[] {
  const bytesOf = (name: string): Buffer =>
    readFileSync(new URL(`../reporters/${folder}${name}`, import.meta.url))
  return names.map((name) => ({ name, bytes: bytesOf(name) }))
}

/**
 * Every pytest of the run finds our plugin through PYTHONPATH, and the plugin finds the report's path in
 * COFFERDAM_REPORT.
 */
const PYTEST_REPORT = 'export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$R" COFFERDAM_REPORT="$R/report.jsonl"'

export interface Runner {
  /** Shell text. `"$R"` is the absolute path of the hidden folder. */
  command: string
  /** The command that the caller sees. */
  shown: string
  reporter?: keyof typeof REPORTERS
  /** Null when the framework writes no report. `isSure: false` when the command may ignore our options. */
  report: { name: string; form: ReportForm; isSure?: false } | null
}

/** Our own files that the runner needs, by their names in the hidden folder. */
export const reporterFiles = ({ reporter }: Runner): { name: string; bytes: Buffer }[] =>
  reporter === undefined ? [] : REPORTERS[reporter]

/**
 * Runs the caller's own command. Only pytest then writes our report, because its plugin needs nothing but
 * environment variables.
 */
export function ownCommand(command: string, framework: TestFramework | undefined): Runner {
  const own = { command: `eval ${quoted(command)}`, shown: command, report: null }
  if (framework !== 'pytest') return own
  return {
    ...own,
    command: `${PYTEST_REPORT}\n${own.command}`,
    reporter: 'pytest',
    report: { name: 'report.jsonl', form: 'events', isSure: false },
  }
}

/** How to run all tests of a project, or one `file` of them, relative to the project's folder. */
export function runnerOf({ framework, script }: Detected, file: string | null): Runner {
  const only = file === null ? '' : ` ${quoted(file)}`
  switch (framework) {
    case 'pytest':
      return {
        // -p loads our plugin even in a project that loads only the plugins it names. The cache plugin stays
        // enabled, because a project may use --ff or the cache fixture. The cache files go into our folder.
        command:
          `${PYTEST_REPORT}\nexec python3 -m pytest -p cofferdam_report ` +
          `-o cache_dir="$R/cache" --rootdir=.${only}`,
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
    // A script may call `vitest` alone, which would watch for changes. Unlike the subcommand `run`, the
    // option --run can be added to any script.
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
