/** Reads the events of `go test -json`. Subtests count instead of their test. A failed build is an error. */
import { z } from 'zod'
import { jsonOrUndefined, linesOf } from './read-events.ts'
import type { ReportDraft } from './report-draft.ts'

/**
 * Longest name of a test. Each `/` in a name adds a parent test. A name with 8 MiB of slashes exhausted the
 * worker's memory.
 */
const MAX_NAME = 1024

const eventSchema = z.object({
  Action: z.string(),
  Package: z.string().optional(),
  ImportPath: z.string().optional(),
  Test: z.string().max(MAX_NAME).optional(),
  Elapsed: z.number().optional(),
  Output: z.string().optional(),
})

/** The longest message that the contract allows. A test may print any amount. */
const MAX_OUTPUT = 8192
/** A test can print lines that are not events. Reading stops after this many of them. */
const MAX_BROKEN = 1000

/**
 * True when a package ended and every started package has ended. `modulePath` is the module path in go.mod,
 * '' when unknown. `printed` has the compiler's errors, which Go before 1.24 writes to no event.
 */
export function readGo(text: string, draft: ReportDraft, modulePath: string, printed: string): boolean {
  const outputs = new Map<string, string>()
  const ended = new Map<string, { test: string; pkg: string; action: string; ms: number }>()
  const open = new Set<string>()
  const failedPackages = new Set<string>()
  let broken = 0
  let hasEnded = false
  const packagesWithFailures = new Set<string>()
  for (const line of linesOf(text)) {
    const parsed = eventSchema.safeParse(jsonOrUndefined(line))
    if (!parsed.success) {
      const pkg = NOT_BUILT.exec(line)?.[1]
      if (pkg === undefined) broken += 1
      else failedPackages.add(pkg)
      if (broken > MAX_BROKEN) return false
      continue
    }
    const {
      Action: action,
      Package: pkg = parsed.data.ImportPath ?? '',
      Test: test,
      Elapsed = 0,
      Output = '',
    } = parsed.data
    const key = `${pkg}\0${test ?? ''}`
    if (action === 'output' || action === 'build-output')
      outputs.set(key, ((outputs.get(key) ?? '') + Output).slice(0, MAX_OUTPUT))
    else if (action === 'start' || (action === 'run' && test !== undefined)) open.add(key)
    else if (action === 'pass' || action === 'fail' || action === 'skip') {
      open.delete(key)
      if (test !== undefined) {
        ended.set(key, { test, pkg, action, ms: Elapsed * 1000 })
        if (action === 'fail') packagesWithFailures.add(pkg)
      } else {
        hasEnded = true
        if (action === 'fail') failedPackages.add(pkg)
      }
    }
  }
  const parents = new Set<string>()
  /** Parents of a failed subtest. They fail because of it. */
  const explained = new Set<string>()
  for (const { test, pkg, action } of ended.values())
    for (let at = test.lastIndexOf('/'); at > 0; at = test.lastIndexOf('/', at - 1)) {
      parents.add(`${pkg}\0${test.slice(0, at)}`)
      if (action === 'fail') explained.add(`${pkg}\0${test.slice(0, at)}`)
    }
  for (const [key, { test, pkg, action, ms }] of ended) {
    // A parent that fails although its subtests pass has its own failure.
    if (parents.has(key) && (action !== 'fail' || explained.has(key))) continue
    const message = (outputs.get(key) ?? '').replaceAll(PROGRESS, '')
    const status = action === 'pass' ? 'passed' : action === 'skip' ? 'skipped' : 'failed'
    draft.add({ name: test, status, ms, detail: () => ({ ...placeIn(message, pkg, modulePath), message }) })
  }
  const printedLines = printed.split('\n')
  for (const pkg of failedPackages)
    if (!packagesWithFailures.has(pkg)) {
      draft.add({
        name: pkg,
        status: 'errored',
        detail: () => {
          const message =
            outputs.get(`${pkg}\0`) ?? compilerSaid(printedLines, pkg) ?? 'The package was not built.'
          return { ...placeIn(message, pkg, modulePath), message }
        },
      })
    }
  return open.size === 0 && (hasEnded || draft.total > 0)
}

/** Lines that say nothing about a failure. */
const PROGRESS = /^ *=== (?:RUN|PAUSE|CONT|NAME) .*\n/gm

/** Printed as plain text before Go 1.24, even with -json. */
const NOT_BUILT = /^FAIL\t(\S{1,1024}) \[(?:build|setup) failed\]$/

/** The compiler's lines about a package follow `# package [package.test]`. */
function compilerSaid(lines: readonly string[], pkg: string): string | null {
  const at = lines.findIndex((line) => line === `# ${pkg}` || line.startsWith(`# ${pkg} [`))
  if (at === -1) return null
  const end = lines.findIndex((line, n) => n > at && !/^\S+\.go:\d|^\t/.test(line))
  return lines
    .slice(at + 1, end === -1 ? undefined : end)
    .join('\n')
    .slice(0, MAX_OUTPUT)
}

/**
 * Finds the file and line in a message. A test prints ` add_test.go:12: …`, relative to the package's folder.
 * The compiler prints `./add.go:3:1: …`.
 */
function placeIn(
  message: string,
  pkg: string,
  modulePath: string,
): { file: string | null; line: number | null } {
  const found = /^[ \t]*(?:\.\/)?([\w./-]{1,400}\.go):(\d{1,7})(?::\d+)?: /m.exec(message)
  // A panic prints stack frames instead of such a line. The first frame in a test file is used.
  const frame = found === null ? /^\t(\/\S{1,400}_test\.go):(\d{1,7}) \+0x/m.exec(message) : null
  if (frame !== null) return { file: frame[1] ?? null, line: Number(frame[2]) }
  if (found === null) return { file: null, line: null }
  const within = modulePath !== '' && pkg.startsWith(`${modulePath}/`) ? pkg.slice(modulePath.length + 1) : ''
  const name = found[1] ?? ''
  return { file: within === '' || name.includes('/') ? name : `${within}/${name}`, line: Number(found[2]) }
}
