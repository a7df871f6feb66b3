/** Reads the output of `cargo test`, because stable Rust writes no other report. */
import { linesOf } from './read-events.ts'
import type { ReportDraft, TestCase } from './report-draft.ts'

/** The longest message that the contract allows. */
const MAX_OUTPUT = 8192
/** The most tests of a report. A result line can claim any number of them. */
const MAX_TESTS = 100_000

const STATUS: Readonly<Record<string, TestCase['status']>> = {
  ok: 'passed',
  FAILED: 'failed',
  ignored: 'skipped',
}

/** The output of one test binary, from its `running 3 tests` to its result. */
interface Binary {
  tests: { name: string; status: TestCase['status'] }[]
  outputs: Map<string, string>
  /** The test that printed the lines which follow. */
  teller: string | null
  /**
   * Lines since the last `failures:`. If the result follows, they are names of failed tests. Otherwise a test
   * printed them.
   */
  list: string[] | null
}

/** True when every test binary that started has a result. */
export function readCargo(text: string, draft: ReportDraft): boolean {
  let began = 0
  let died = 0
  let binary: Binary | null = null
  for (const line of linesOf(text)) {
    if (RUNNING.test(line) && (binary === null || binary.teller === null)) {
      if (binary !== null) died += 1
      addSeen(binary, draft)
      began += 1
      binary = { tests: [], outputs: new Map(), teller: null, list: null }
    } else if (binary !== null) {
      const counts = readLine(binary, line)
      if (counts === null) continue
      addCounted(binary, counts, draft)
      binary = null
    }
  }
  addSeen(binary, draft)
  for (let n = 0; n < died && draft.total < MAX_TESTS; n++) draft.add(DEAD)
  return began > 0 && died === 0 && binary === null
}

/** Reads one line of a binary. Returns the counts of its result. Null for every other line. */
function readLine(binary: Binary, line: string): number[] | null {
  const head = !line.startsWith('---- ') ? null : /^---- (.+) stdout ----$/.exec(line)
  const result = RESULT.exec(line)
  if (head !== null || line === 'failures:') {
    tell(binary, binary.list ?? [])
    binary.list = head === null ? [line] : null
    binary.teller = head?.[1] ?? binary.teller
  } else if (binary.list !== null && /^(?: {4}|$)/.test(line)) {
    if (binary.list.length < MAX_TESTS) binary.list.push(line)
  } else if (result !== null && (binary.list !== null || binary.teller === null))
    return result.slice(1).map(Number)
  else if (binary.teller !== null) {
    // The current test printed this line, even if it looks like a line of cargo.
    tell(binary, [...(binary.list ?? []), line])
    binary.list = null
  } else {
    const test = !line.startsWith('test ') ? null : TEST.exec(line)
    if (test !== null) binary.tests.push({ name: test[1] ?? '', status: STATUS[test[2] ?? ''] ?? 'skipped' })
  }
  return null
}

function tell({ outputs, teller }: Binary, lines: readonly string[]): void {
  if (teller === null) return
  for (const line of lines) {
    const sofar = outputs.get(teller) ?? ''
    if (sofar.length >= MAX_OUTPUT) return
    outputs.set(teller, `${sofar}${line}\n`.slice(0, MAX_OUTPUT))
  }
}

const RUNNING = /^running \d+ tests?$/
const TEST = /^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b/
const RESULT = /^test result: \w+\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored;/

/**
 * Stands for a test binary that ended without a result. Cargo continues with the next one, and does not fail
 * if the binary exited with 0.
 */
const DEAD: TestCase = {
  name: 'a test binary',
  status: 'errored',
  message: 'It ended before its result: a test may have ended the process.',
}

/** Adds the tests of a binary that died before its result. */
function addSeen(binary: Binary | null, draft: ReportDraft): void {
  for (const one of binary?.tests ?? []) draft.add(caseOf(one, binary?.outputs ?? new Map()))
}

/**
 * Uses the counts of the result line. Output that bypasses cargo's capture can garble the line of any test.
 */
function addCounted({ tests, outputs, list }: Binary, counts: readonly number[], draft: ReportDraft): void {
  const [passed = 0, failed = 0, ignored = 0] = counts
  const seen = tests.filter(({ status }) => status === 'failed').map(({ name }) => name)
  const listed = (list ?? []).filter((line) => line.startsWith('    ')).map((line) => line.slice(4))
  const names = [...new Set([...seen, ...listed])]
  const add = (count: number, one: (n: number) => TestCase): void => {
    for (let n = 0; n < count && draft.total < MAX_TESTS; n++) draft.add(one(n))
  }
  add(failed, (n) => caseOf({ name: names[n] ?? '', status: 'failed' }, outputs))
  add(passed, () => ({ name: '', status: 'passed' }))
  add(ignored, () => ({ name: '', status: 'skipped' }))
}

function caseOf(test: { name: string; status: TestCase['status'] }, outputs: Map<string, string>): TestCase {
  if (test.status !== 'failed') return test
  return {
    ...test,
    detail: () => {
      const message = (outputs.get(test.name) ?? '').split('\nstack backtrace:')[0] ?? ''
      // Before Rust 1.73 the message came first: panicked at 'message', src/lib.rs:3:5
      const place = /(?:at|',) ([^\s:]{1,400}\.rs):(\d{1,7}):\d+/.exec(message)
      return { message, file: place?.[1] ?? null, line: place === null ? null : Number(place[2]) }
    },
  }
}
