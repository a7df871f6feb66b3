/** Collects tests into a report. The input is hostile. The report fits the contract's schema and bounds. */
import { posix } from 'node:path'
import { BOUNDS, type TestFramework, type TestReport } from '@cofferdam/contract'

export interface TestCase {
  name: string
  status: 'passed' | 'failed' | 'errored' | 'skipped'
  /** As the framework writes it: absolute, relative to the project, or a file URL. */
  file?: string | null | undefined
  line?: number | null | undefined
  message?: string
  ms?: number | null | undefined
  /** Fields that take time to compute. Called for at most 500 tests of a report. */
  detail?: () => Pick<TestCase, 'file' | 'line' | 'message'>
}

export interface Place {
  /** Absolute path of the work directory as the sandbox sees it. Empty when unknown. */
  root: string
  /** Folder of the project, relative to `root`. Empty for `root` itself. */
  project: string
}

/** The contract's bound (testReportSchema). */
const MAX_FAILURES = 500
/**
 * At most this many characters of a name or message are read. Control sequences are then removed, and the
 * text is cut to the contract's limit for it.
 */
const MAX_RAW = 32 * 1024

export interface ReportDraft {
  add(test: TestCase): void
  /** Lists a further failure of a test that is counted already. */
  addPart(test: TestCase): void
  readonly total: number
  finish(fields: { framework: TestFramework; command: string; complete: boolean }): TestReport
}

/** An empty report. */
export function createReportDraft(place: Place): ReportDraft {
  const counts = { passed: 0, failed: 0, errored: 0, skipped: 0 }
  const failures: TestReport['failures'] = []
  let omitted = 0
  let ms: number | null = null
  const list = (test: TestCase): void => {
    if (failures.length === MAX_FAILURES) omitted += 1
    else failures.push(failureOf({ ...test, ...test.detail?.() }, place))
  }
  const total = () => counts.passed + counts.failed + counts.errored + counts.skipped
  return {
    add(test) {
      counts[test.status] += 1
      if (typeof test.ms === 'number' && test.ms >= 0 && Number.isFinite(test.ms)) ms = (ms ?? 0) + test.ms
      if (test.status === 'failed' || test.status === 'errored') list(test)
    },
    addPart: list,
    get total() {
      return total()
    },
    finish: ({ framework, command, complete }) => ({
      framework,
      command,
      total: total(),
      ...counts,
      duration_ms: ms,
      failures,
      failures_omitted: omitted,
      complete,
    }),
  }
}

/**
 * Control sequences of a terminal (ECMA-48): CSI, strings such as titles and links, then all others. A
 * sequence matches even if its end was cut off. No part of a pattern can match what its next part matches, so
 * the match never backtracks far.
 */
const SEQUENCES =
  // eslint-disable-next-line no-control-regex
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|\u001b[\]PX^_][^\u0007\u001b\n]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]?/g
/** All other control characters, except tabs and line ends. */
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g
/** Text for people, without characters that only a terminal reads. */
export const plainText = (text: string): string =>
  text.replaceAll(SEQUENCES, '').replaceAll(/\r\n?/g, '\n').replaceAll(CONTROLS, '')

function failureOf(test: TestCase, place: Place): TestReport['failures'][number] {
  const file = inWork(test.file, place)
  const line = test.line ?? null
  return {
    // If a whole file fails, its name is its path in the sandbox. The report shows the relative path instead.
    name:
      file !== null && test.name === test.file ? file : plainText(test.name.slice(0, MAX_RAW)).slice(0, 1024),
    file,
    line: file !== null && line !== null && Number.isSafeInteger(line) && line > 0 ? line : null,
    message: plainText((test.message ?? '').slice(0, MAX_RAW))
      .trim()
      .slice(0, 8192),
  }
}

/** A path relative to the work directory. Null when it is outside, or not a path. */
function inWork(path: string | null | undefined, { root, project }: Place): string | null {
  if (path === null || path === undefined || path === '' || path.length > 4096) return null
  const plain = path.startsWith('file://') ? decoded(path.slice('file://'.length)) : path
  if (!plain.startsWith('/')) return checked(posix.join(project, plain))
  const prefix = root.endsWith('/') ? root : `${root}/`
  return root !== '' && plain.startsWith(prefix) ? checked(plain.slice(prefix.length)) : null
}

function checked(path: string): string | null {
  const normal = posix.normalize(path)
  return normal.startsWith('../') || normal.startsWith('/') || normal.length > BOUNDS.pathLength
    ? null
    : normal
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
