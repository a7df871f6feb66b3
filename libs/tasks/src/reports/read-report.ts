/**
 * Makes the report of a test run from the report file and the output that the run left. The tests can write
 * both. So a missing, too large, malformed or forged file can give wrong counts for these tests, but does no
 * other harm.
 */
import {
  isCofferdamError,
  unlessAborted,
  type Sandbox,
  type TestReport,
  type TestFramework,
} from '@cofferdam/contract'
import type { TestsPlan } from '../test-run/plan-tests.ts'
import type { ReportForm } from '../test-run/runners.ts'
import { readCargo } from './read-cargo.ts'
import { readEvents } from './read-events.ts'
import { readGo } from './read-go.ts'
import { readJest } from './read-jest.ts'
import { readPrinted } from './read-printed.ts'
import { createReportDraft, type Place, type ReportDraft, plainText, type TestCase } from './report-draft.ts'

/** A report of 10,000 tests with 500 long failures has about 4 MiB. */
const MAX_REPORT_BYTES = 8 * 1024 * 1024
/** The longest path that Linux accepts. */
const MAX_ROOT_BYTES = 4096

export interface LeftBehind {
  /** Text of the report. Null when there is no readable one. */
  report: string | null
  /** The report reached the size limit, so the report or its end is missing. */
  isTooLarge: boolean
  root: string
  /** The module path in go.mod. Empty when unknown. */
  modulePath: string
}

export const NOTHING_LEFT: LeftBehind = { report: null, isTooLarge: false, root: '', modulePath: '' }

/** Reads the report from the sandbox and removes our folder there. Never rejects. */
export async function takeReport(
  sandbox: Pick<Sandbox, 'read' | 'remove'>,
  plan: TestsPlan,
  signal: AbortSignal,
): Promise<LeftBehind> {
  let isTooLarge = false
  const text = async (path: string, maxBytes: number): Promise<string | null> => {
    try {
      const bytes = await unlessAborted(sandbox.read(path, maxBytes), signal)
      return bytes.length > maxBytes ? null : Buffer.from(bytes).toString('utf8')
    } catch (error) {
      isTooLarge = isCofferdamError(error) && error.code === 'payload_too_large'
      return null
    }
  }
  const goMod = plan.project === '' ? 'go.mod' : `${plan.project}/go.mod`
  const report = plan.report === null ? null : await text(plan.report.path, MAX_REPORT_BYTES)
  const left = {
    report,
    // tee-report.py stops copying at this size, so the rest is missing.
    isTooLarge: isTooLarge || Buffer.byteLength(report ?? '') >= MAX_REPORT_BYTES,
    root: ((await text(`${plan.folder}/root`, MAX_ROOT_BYTES)) ?? '').trim(),
    modulePath:
      plan.report?.form === 'go'
        ? (/^module\s+(\S+)/m.exec((await text(goMod, MAX_REPORT_BYTES)) ?? '')?.[1] ?? '')
        : '',
  }
  await unlessAborted(sandbox.remove(plan.folder), signal).catch(() => undefined)
  return left
}

export interface ReadReport {
  report: TestReport
  /** True if the runner reached its end: its report or summary says so, or it writes no report. */
  ended: boolean
}

/**
 * `printed` is the end of both output streams. Its counts are used if the run need not leave a report, or if
 * the report is too large.
 */
export function readReport(plan: TestsPlan, left: LeftBehind, printed: string): ReadReport {
  const draft = createReportDraft({ root: left.root, project: plan.project })
  const complete =
    left.report !== null && plan.report !== null && addTests(plan.report.form, left, draft, printed)
  const fields = { framework: plan.framework, command: plan.shown }
  // A test can also print a summary. So printed summaries are ignored if the runner must leave a report.
  const owesNone = plan.report === null || (plan.report.isSure === false && left.report === null)
  const summary = owesNone || left.isTooLarge ? readPrinted(printed) : null
  const ended = complete || owesNone || summary !== null
  const hasTests = complete || draft.total > 0 || summary !== null
  const unloaded = hasTests ? null : readUnloaded(plan.framework, printed, left.root)
  if (unloaded !== null) draft.add(unloaded)
  if (complete || draft.total > 0) return { report: draft.finish({ ...fields, complete }), ended }
  const place: Place = { root: '', project: '' }
  const empty = createReportDraft(place).finish({ ...fields, complete: false })
  if (summary === null) return { report: empty, ended }
  const framework = plan.framework === 'npm' ? (summary.framework ?? 'npm') : plan.framework
  return { report: { ...empty, framework, ...summary.counts }, ended }
}

/** Adds the report's tests. True when the report is complete. */
function addTests(
  form: ReportForm,
  { report, modulePath }: LeftBehind,
  draft: ReportDraft,
  printed: string,
): boolean {
  const text = report ?? ''
  switch (form) {
    case 'events':
      return readEvents(text, draft)
    case 'jest':
      return readJest(text, draft)
    case 'go':
      return readGo(text, draft, modulePath, printed)
    case 'cargo':
      return readCargo(text, draft)
  }
}

/**
 * Finds why no test started, if only the output tells: a broken crate, or a file that mocha cannot load. Null
 * when the output has no such error. `root` is the work directory as the sandbox sees it.
 */
function readUnloaded(framework: TestFramework, printed: string, root: string): TestCase | null {
  const text = plainText(printed)
  if (framework === 'cargo') return crate(text)
  return framework === 'mocha' ? script(text, root) : null
}

/**
 * Cargo prints the crate's name after rustc's errors. The first error is the cause, others may follow from
 * it.
 */
function crate(text: string): TestCase | null {
  const name = /^error: could not compile (`[^`\n]{1,200}`(?: \([^)\n]{1,200}\))?)/m.exec(text)?.[1]
  if (name === undefined) return null
  const message = /^error(?:\[E\d{4}\])?: (?!could not compile).*(?:\n.+)*/m.exec(text)?.[0] ?? ''
  const place = /^ *--> ([^\s:]{1,400}\.rs):(\d{1,7}):/m.exec(message)
  return {
    name,
    status: 'errored',
    file: place?.[1],
    line: place === null ? null : Number(place[2]),
    message,
  }
}

function script(text: string, root: string): TestCase | null {
  const said = /^ ?Exception during run: ?([^]*)/m.exec(text)?.[1]
  if (said === undefined) return null
  const paths = [...said.matchAll(/(\/[^\s:()'"]{1,400}\.[cm]?[jt]sx?)\b(?::(\d{1,7}))?/g)].filter(
    ([, path = '']) => root !== '' && path.startsWith(`${root}/`) && !path.includes('/node_modules/'),
  )
  const [, file = null, line] = paths.find((found) => found[2] !== undefined) ?? paths[0] ?? []
  return {
    name: file ?? 'mocha',
    status: 'errored',
    file,
    line: line === undefined ? null : Number(line),
    // Before the message of a syntax error, Node prints the file and the source line. They are cut off.
    message: said.slice(Math.max(0, said.search(/^\w*Error\b/m))),
  }
}
