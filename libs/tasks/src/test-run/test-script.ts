/**
 * Reads a package's `test` script: which test runner it calls, and where our reporter's options go. Changes
 * only the one part of `a && b && c` that calls a known runner. Everything else runs unchanged.
 */
import { boundedRecord, type TestFramework } from '@cofferdam/contract'
import { z } from 'zod'

export type ScriptRunner = Extract<TestFramework, 'jest' | 'vitest' | 'mocha' | 'node:test'>

/**
 * If a manifest has more scripts than this, all of them are ignored, because a program can write a manifest
 * with any number of scripts.
 */
const MAX_SCRIPTS = 1000

const manifestSchema = z.object({
  name: z.string().optional().catch(undefined),
  scripts: boundedRecord(z.string(), z.string(), MAX_SCRIPTS, 'scripts').catch({}).default({}),
  dependencies: z.record(z.string(), z.unknown()).catch({}).default({}),
  devDependencies: z.record(z.string(), z.unknown()).catch({}).default({}),
  jest: z.unknown().optional(),
  mocha: z.unknown().optional(),
})
export type Manifest = z.infer<typeof manifestSchema>

/** The fields of a package.json that matter for tests. Null when it is malformed. */
export function readManifest(text: string | null): Manifest | null {
  if (text === null) return null
  try {
    return manifestSchema.parse(JSON.parse(text))
  } catch {
    return null
  }
}

export interface TestScript {
  /** Null when the script calls no known runner, or several. */
  runner: ScriptRunner | null
  /** The script with `options` given to its runner. */
  withOptions(options: string): string
}

/** npm's default script for a package without tests, which only fails. */
const PLACEHOLDER = /no test specified/

/** The `test` script, with the package's scripts that it calls inlined. Null when there is none. */
export function testScript({ scripts }: Manifest): TestScript | null {
  const text = scripts.test
  if (text === undefined || text.trim() === '' || PLACEHOLDER.test(text)) return null
  const before = scripts.pretest === undefined ? '' : `${scripts.pretest} && `
  const parts = expanded(before + text, scripts, 0)
  const found = (parts ?? []).map((part) => runnerOf(part))
  const at = found.findIndex((runner) => runner !== null)
  const isOne = found.filter((runner) => runner !== null).length === 1
  const runner = isOne ? (found[at] ?? null) : null
  return {
    runner,
    withOptions: (options) =>
      parts === null || runner === null
        ? before + text
        : parts.map((part, n) => (n === at ? insertOptions(part, runner, options) : part)).join(' && '),
  }
}

/** Calls between scripts that nest more deeply than this are taken for a recursion. */
const MAX_DEPTH = 5

/** The parts between `&&`. Null when the script has another operator, because then nothing is certain. */
function expanded(text: string, scripts: Manifest['scripts'], depth: number): string[] | null {
  const parts = conjuncts(text)
  if (parts === null || depth > MAX_DEPTH) return null
  const all: string[] = []
  for (const part of parts) {
    const called = calledScript(part)
    const body = called === null ? undefined : scripts[called]
    const inner = body === undefined ? [part] : expanded(body, scripts, depth + 1)
    if (inner === null) return null
    all.push(...inner)
  }
  return all
}

const QUOTED = /'[^']*'|"(?:\\.|[^"\\])*"|\\./g

function conjuncts(text: string): string[] | null {
  const masked = text.replaceAll(QUOTED, (quoted) => 'q'.repeat(quoted.length))
  const parts: string[] = []
  let from = 0
  for (const { index } of masked.matchAll(/&&/g)) {
    parts.push(text.slice(from, index).trim())
    from = index + 2
  }
  parts.push(text.slice(from).trim())
  return /[|;&()`\n<>]|\$\(/.test(masked.replaceAll('&&', '')) ? null : parts
}

function calledScript(part: string): string | null {
  const run = /^(?:npm|yarn|pnpm|bun) (?:run|run-script)(?: -s| --silent)? ([\w:.-]+)$/.exec(part)
  return run?.[1] ?? /^(?:yarn|pnpm) ((?:test|unit|build|compile)[\w:.-]*)$/.exec(part)?.[1] ?? null
}

function runnerOf(part: string): ScriptRunner | null {
  const words = part.replaceAll(/['"]/g, '').split(/\s+/)
  for (const word of words) {
    const name = word.slice(word.lastIndexOf('/') + 1).replace(/\.[cm]?js$/, '')
    if (name === 'jest' || name === 'vitest' || name === 'mocha') return name
    if (name === '_mocha') return 'mocha'
    if (word === '--test') return 'node:test'
  }
  return null
}

function insertOptions(part: string, runner: ScriptRunner, options: string): string {
  if (runner === 'node:test') {
    // Node passes options after a file's name to the test, so ours go first. Node requires a destination for
    // each reporter, so the script's own reporters are removed.
    const own = part.replaceAll(/\s--test-reporter(?:-destination)?(?:=|\s+)\S+/g, '')
    return own.replace(/(^|\s)--test(?=\s|$)/, () => ` --test ${options}`).trim()
  }
  const own = runner === 'mocha' ? part.replaceAll(/\s(?:--reporter(?:=|\s+)|-R\s+)\S+/g, '') : part
  const rest = /\s--\s/.exec(own)
  return rest === null
    ? `${own} ${options}`
    : `${own.slice(0, rest.index)} ${options}${own.slice(rest.index)}`
}
