/**
 * `npm run check`: types, lint, format, allowed imports, generated files, lockfile, and text that must not be
 * in tracked files. Every step runs, and the exit status shows whether all passed. `npm run check -- --write`
 * formats and writes generated files.
 *
 * The steps run in parallel, because none of them keeps two cores busy from start to end. The compiler stores
 * its findings below node_modules and checks only changed files. The steps do not run through turbo: its
 * cache would save two seconds, and a stale hit would be a wrong result.
 */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { importProblems } from '../tests/architecture/import-rules.ts'
import { readTree } from '../tests/architecture/import-tree.ts'
import { GENERATED_FILES } from './generated-files.ts'
import { strayText } from './stray-text.ts'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

const TYPES_FOUND = join(root, 'node_modules/.cache/types.tsbuildinfo')

interface Step {
  name: string
  /** Resolves with the problems, one per line. Empty if there are none. */
  problems(): Promise<string[]>
}

interface Ended {
  status: number
  output: string
}

/** Runs a program of node_modules/.bin or PATH at the root. Its output is bounded by 16 MiB. */
function run(program: string, ...args: string[]): Promise<Ended> {
  const own = join(root, 'node_modules', '.bin', program)
  const { promise, resolve } = Promise.withResolvers<Ended>()
  const options = {
    cwd: root,
    maxBuffer: 16 * 1024 * 1024,
    env: { ...process.env, TURBO_TELEMETRY_DISABLED: '1' },
  }
  execFile(existsSync(own) ? own : program, args, options, (error, stdout, stderr) => {
    const status = error === null ? 0 : typeof error.code === 'number' ? error.code : 1
    const missing = error?.code === 'ENOENT' ? `${program} is not on PATH` : ''
    resolve({ status, output: `${stdout}${stderr}${missing}` })
  })
  return promise
}

const program = (name: string, ...words: [string, ...string[]]): Step => ({
  name,
  problems: async () => {
    const { status, output } = await run(...words)
    return status === 0 ? [] : output.trimEnd().split('\n')
  },
})

function pages(write: boolean): Step {
  return {
    name: write ? 'generated files (written)' : 'generated files',
    problems: async () => {
      const stale: string[] = []
      for (const [path, make] of Object.entries(GENERATED_FILES)) {
        const file = join(root, path)
        const text = await make()
        if (existsSync(file) && readFileSync(file, 'utf8') === text) continue
        if (write) writeFileSync(file, text)
        else stale.push(path)
      }
      return stale.map((path) => `${path} is not what the code says; run npm run check -- --write`)
    },
  }
}

/** `npm ci` refuses a lockfile that does not match package.json. The dry run reports that without changes. */
const lockfile: Step = {
  name: 'lockfile',
  problems: async () => {
    const { status, output } = await run(
      'npm',
      'ci',
      '--dry-run',
      '--loglevel=error',
      '--offline',
      '--ignore-scripts',
    )
    return status === 0 ? [] : output.trimEnd().split('\n').slice(0, 20)
  },
}

const stray: Step = {
  name: 'tracked files',
  problems: async () => {
    const listed = await run('git', 'ls-files', '-z')
    if (listed.status !== 0) return [] // an unpacked archive has no tracked files
    const files = listed.output.split('\0').filter((path) => path !== '' && existsSync(join(root, path)))
    return files.flatMap((path) => strayText(path, readFileSync(join(root, path), 'utf8')))
  },
}

const writes = (step: Step): boolean => step.name.endsWith('(written)')

async function main(args: string[]): Promise<number> {
  const write = args.includes('--write')
  const unknown = args.filter((arg) => arg !== '--write')
  if (unknown.length > 0) {
    console.error(`npm run check knows only --write, not ${unknown.join(' ')}`)
    return 2
  }
  const steps: Step[] = [
    program('types', 'tsc', '-p', '.', '--incremental', '--tsBuildInfoFile', TYPES_FOUND),
    program('types of the pages', 'tsc', '-p', 'apps/dashboard', '--noEmit'),
    program('lint', 'oxlint', '--type-aware', '.'),
    write ? program('format (written)', 'oxfmt', '.') : program('format', 'oxfmt', '--check', '.'),
    { name: 'import rules', problems: () => Promise.resolve(importProblems(readTree(root))) },
    pages(write),
    lockfile,
    stray,
  ]
  // Steps that write files come first, because the others read these files.
  const [first, rest] = write ? [steps.filter(writes), steps.filter((step) => !writes(step))] : [[], steps]
  let failed = 0
  for (const group of [first, rest]) {
    const startMs = performance.now()
    await Promise.all(
      group.map(async (step) => {
        const problems = await step.problems()
        const took = `${((performance.now() - startMs) / 1000).toFixed(1)} s`
        console.log(
          [`${problems.length === 0 ? '✓' : '✗'} ${step.name} (${took})`, ...problems].join('\n    '),
        )
        if (problems.length > 0) failed++
      }),
    )
  }
  console.log(failed === 0 ? '\nAll checks passed.' : `\n${failed} of ${steps.length} checks failed.`)
  return failed === 0 ? 0 : 1
}

process.exitCode = await main(process.argv.slice(2))
