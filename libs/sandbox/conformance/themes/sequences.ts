/**
 * A session keeps what its scope promises and reports it correctly, in any sequence of programs. A simple
 * model predicts each result.
 */
import { randomBytes } from 'node:crypto'
import type { Language, Program, SessionScope } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { scheduleSeed } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { afterEach, expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

/**
 * Backends see installs and test runs as commands. An install leaves `.packages`, a test run brings files.
 */
const COMMANDS = ['command', 'install', 'tests'] as const
type Kind = Language | (typeof COMMANDS)[number]

/** How a program ends after it has reported what it found. */
const ENDINGS = ['returns', 'fails', 'exits', 'closes its output', 'holds shared memory'] as const
type Ending = (typeof ENDINGS)[number]

interface Step {
  kind: Kind
  ending: Ending
}

/**
 * Prints the files of earlier steps in any order, and on the second line the interpreter's counter. It does
 * not use `ls`, because gVisor (release 20221219) refuses the statx call of `ls`.
 */
const SEEN = `for name in step-* .packages/step-*; do [ -e "$name" ] && printf '%s ' "$name"; done; echo; count=$((count+1)); echo $count`

const SHELL_ENDINGS: Record<Ending, string> = {
  returns: 'true',
  fails: 'false',
  exits: 'exit 0',
  'closes its output': 'exec 1>&-',
  'holds shared memory': 'true',
}

const PYTHON_ENDINGS: Record<Ending, string> = {
  returns: '',
  fails: 'raise RuntimeError("no")',
  exits: 'os._exit(0)',
  'closes its output': 'os.close(1)',
  // Holds a nameless file in /dev/shm, as every multiprocessing lock, queue and pool does.
  'holds shared memory': 'import multiprocessing; held = multiprocessing.Semaphore()',
}

const NODE_ENDINGS: Record<Ending, string> = {
  returns: '',
  fails: 'throw new Error("no")',
  exits: 'process.exit(0)',
  'closes its output': `require('node:fs').closeSync(1)`,
  'holds shared memory': '',
}

const python = (path: string, ending: Ending): string => `
import glob, os
count = globals().get("count", 0) + 1
print(*glob.glob("step-*"), *glob.glob(".packages/step-*"))
print(count, flush=True)
open("${path}", "w").close()
${PYTHON_ENDINGS[ending]}`

const node = (path: string, ending: Ending, type = ''): string => `{
const fs = require('node:fs')
const listed = (folder) => (fs.existsSync('./' + folder) ? fs.readdirSync('./' + folder) : []).map((name) => folder + name)
const names${type} = [...listed(''), ...listed('.packages/')].filter((name) => /step-\\d+$/.test(name))
globalThis.count = (globalThis.count ?? 0) + 1
fs.writeSync(1, names.join(' ') + '\\n' + globalThis.count + '\\n')
fs.writeFileSync('${path}', '')
${NODE_ENDINGS[ending]}
}`

const shell = (path: string, ending: Ending): string =>
  `${SEEN}; mkdir -p "$(dirname ${path})"; : >${path}; ${SHELL_ENDINGS[ending]}`

function programOf({ kind, ending }: Step, path: string): Program {
  switch (kind) {
    case 'python':
      return { type: 'script', language: kind, source: python(path, ending) }
    case 'javascript':
      return { type: 'script', language: kind, source: node(path, ending) }
    case 'typescript':
      return { type: 'script', language: kind, source: node(path, ending, ': string[]') }
    case 'bash':
      return { type: 'script', language: kind, source: shell(path, ending) }
    case 'command':
      return { type: 'command', argv: ['sh', '-c', shell(path, ending)] }
    case 'install':
      return { type: 'command', shell: shell(path, ending) }
    case 'tests':
      return { type: 'command', shell: `${SEEN}; ${SHELL_ENDINGS[ending]}` }
  }
}

const KEEPS_INTERPRETER: ReadonlySet<SessionScope> = new Set(['interpreter', 'processes'])

/** JavaScript and TypeScript share one interpreter. */
const familyOf = (kind: Kind): string => (kind === 'typescript' ? 'javascript' : kind)

interface Found {
  files: string[]
  count: number
  interpreter: 'kept' | 'restarted' | 'none'
  fresh: boolean
}

/** The expected state of a session, by its scope and earlier programs. */
class Book {
  readonly #scope: SessionScope
  /** Languages whose interpreters are kept. */
  readonly #kept: ReadonlySet<string>
  #files: string[] = []
  /** Counters of living interpreters by family; null for a lost one. */
  readonly #counts = new Map<string, number | null>()
  #runs = 0

  constructor(scope: SessionScope, kept: ReadonlySet<string>) {
    this.#scope = scope
    this.#kept = kept
  }

  /** What the next program finds, and what it leaves. */
  play({ kind, ending }: Step, path: string): Found {
    const family = familyOf(kind)
    const isKept = KEEPS_INTERPRETER.has(this.#scope) && this.#kept.has(family)
    const before = isKept ? this.#counts.get(family) : undefined
    const count = (before ?? 0) + 1
    const fresh = this.#runs === 0 || this.#scope === 'none'
    const files = this.#scope === 'none' ? [] : [...this.#files]
    this.#runs += 1
    this.#files.push(path)
    // Node.js cannot open a closed output again, so its interpreter ends.
    const isLost = ending === 'exits' || (ending === 'closes its output' && family === 'javascript')
    this.#counts.set(family, isLost ? null : count)
    const interpreter = before === undefined ? 'none' : before === null ? 'restarted' : 'kept'
    return { files, count, interpreter, fresh }
  }
}

const ends = (ending: Ending, ...kinds: Kind[]): Step[] => kinds.map((kind) => ({ kind, ending }))

const OF_INTERPRETERS: Step[] = [
  ...ends('closes its output', 'bash', 'python', 'javascript'),
  ...ends('holds shared memory', 'python'),
  ...ends('exits', 'python'),
  ...ends('returns', 'bash', 'javascript', 'python'),
]

/**
 * Sequences that every test run plays. Each begins with `bash`, for which no interpreter waits, so the
 * waiting interpreter changes later.
 */
const EXAMPLES: Record<SessionScope, Step[]> = {
  none: ends('returns', 'bash', 'python', 'javascript', 'python'),
  files: ends('returns', 'bash', 'python', 'install', 'javascript', 'python', 'tests', 'command'),
  interpreter: OF_INTERPRETERS,
  processes: [...OF_INTERPRETERS, ...ends('returns', 'tests', 'install', 'command', 'bash')],
}

/** Random sequences in the long tier. Each step takes a second at some vendors. */
const RANDOM_RUNS = 8
const LONG_MS = 300_000

export function sequences(h: Harness): void {
  const { capabilities, backend } = h
  if (capabilities.sessions.length === 0) return

  // An idle cell outlives its test. If each test has an owner of its own, sweep the cells here.
  afterEach(async () => {
    if (h.options.warmOwner === undefined) await backend.sweep(h.owner())
  })

  const kinds: Kind[] = [...capabilities.languages, ...COMMANDS]
  const isVendors = h.options.vendorInterpreter === true
  const kept = new Set(isVendors ? ['python'] : capabilities.languages.map(familyOf))
  const stepArb: fc.Arbitrary<Step> = fc.record({
    kind: fc.constantFrom(...kinds),
    ending: fc.constantFrom(...ENDINGS),
  })

  async function play(scope: SessionScope, steps: readonly Step[]): Promise<void> {
    let book = new Book(scope, kept)
    let id: string | undefined
    const session = { key: randomBytes(6).toString('hex'), scope, idleMs: null }
    for (const [i, step] of steps.entries()) {
      const path = step.kind === 'install' ? `.packages/step-${i}` : `step-${i}`
      const program = programOf(step, path)
      await using sandbox = await h.open(program, { reuse: 'session', session })
      if (step.kind === 'tests') await sandbox.write([{ path, bytes: new Uint8Array() }])
      if (isVendors && step.kind === 'python' && step.ending === 'exits') {
        // Vendors report the end of their interpreter differently. At all of them, the next program starts
        // fresh and reports that.
        await Promise.allSettled([h.run(sandbox, program)])
        book = new Book(scope, kept)
        id = undefined
        continue
      }
      const { exit, stdout, stderr } = await h.run(sandbox, program)
      const [names = '', count] = stdout.toString().split('\n')
      const own = step.kind === 'tests' ? [path] : []
      const found: Found = {
        files: names.split(' ').filter((name) => name !== '' && !own.includes(name)),
        count: Number(count),
        interpreter: exit.interpreter ?? 'none',
        fresh: sandbox.session?.fresh ?? true,
      }
      const expected = book.play(step, path)
      expect({ ...found, files: new Set(found.files) }, `step ${i}: ${stderr.toString()}`).toEqual({
        ...expected,
        files: new Set(expected.files),
      })
      expect(sandbox.session?.id, `step ${i}`).toBe((id ??= sandbox.session?.id))
    }
  }

  for (const scope of capabilities.sessions)
    test(
      `keeps what scope ${scope} promises after any sequence of programs`,
      isLongTier() ? { timeout: Math.max(LONG_MS, h.options.testMs ?? 0) } : {},
      async () => {
        await play(
          scope,
          EXAMPLES[scope].filter(({ kind }) => kinds.includes(kind)),
        )
        if (!isLongTier()) return
        await fc.assert(
          fc.asyncProperty(fc.array(stepArb, { minLength: 6, maxLength: 6 }), (steps) => play(scope, steps)),
          // A failing sequence is not shrunk, because each one costs seconds.
          { numRuns: RANDOM_RUNS, seed: scheduleSeed(), endOnFailure: true },
        )
      },
    )
}
