/** Reads what `cargo test` prints: stable Rust has no report of another form. */
import { linesOf } from './read-events.ts'
import type { ReportDraft, TestCase } from './report-draft.ts'

/** The contract's longest message. */
const MAX_OUTPUT = 8192
/** The shortest true lines of 8 MiB; a result can say any number. */
const MAX_TESTS = 100_000

const STATUS: Readonly<Record<string, TestCase['status']>> = {
  ok: 'passed',
  FAILED: 'failed',
  ignored: 'skipped',
}

/** What one test binary printed, between its `running 3 tests` and its result. */
interface Binary {
  tests: { name: string; status: TestCase['status'] }[]
  outputs: Map<string, string>
  /** Names of the list that stands before the result. */
  listed: string[]
}

/** True when every test binary that began came to its result. */
export function readCargo(text: string, draft: ReportDraft): boolean {
  let began = 0
  let died = 0
  let binary: Binary | null = null
  let block: string | null = null
  for (const line of linesOf(text)) {
    const head = !line.startsWith('---- ') ? null : /^---- (.+) stdout ----$/.exec(line)
    if (binary !== null && head !== null) block = head[1] ?? ''
    else if (binary !== null && line === 'failures:') {
      block = null
      binary.listed = []
    } else if (binary !== null && block !== null) {
      // Whatever it looks like, a test has printed it.
      const sofar = binary.outputs.get(block) ?? ''
      if (sofar.length < MAX_OUTPUT) binary.outputs.set(block, `${sofar}${line}\n`.slice(0, MAX_OUTPUT))
    } else if (RUNNING.test(line)) {
      if (binary !== null) died += 1
      addSeen(binary, draft)
      began += 1
      binary = { tests: [], outputs: new Map(), listed: [] }
    } else if (binary !== null) {
      const result = RESULT.exec(line)
      const test = !line.startsWith('test ') ? null : TEST.exec(line)
      if (result !== null) {
        addCounted(binary, result.slice(1).map(Number), draft)
        binary = null
      } else if (test !== null)
        binary.tests.push({ name: test[1] ?? '', status: STATUS[test[2] ?? ''] ?? 'skipped' })
      else if (line.startsWith('    ') && binary.listed.length < MAX_TESTS) binary.listed.push(line.slice(4))
    }
  }
  addSeen(binary, draft)
  for (let n = 0; n < died && draft.total < MAX_TESTS; n++) draft.add(DEAD)
  return began > 0 && died === 0 && binary === null
}

const RUNNING = /^running \d+ tests?$/
const TEST = /^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b/
const RESULT = /^test result: \w+\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored;/

/** Cargo goes on with the next binary, and exits with 0 when this one did. */
const DEAD: TestCase = {
  name: 'a test binary',
  status: 'errored',
  message: 'It ended before its result: a test may have ended the process.',
}

/** A binary that died has told some of its tests. */
function addSeen(binary: Binary | null, draft: ReportDraft): void {
  for (const one of binary?.tests ?? []) draft.add(caseOf(one, binary?.outputs ?? new Map()))
}

/** The result's own counts: a test that prints past the capture can make the line of any test illegible. */
function addCounted({ tests, outputs, listed }: Binary, counts: readonly number[], draft: ReportDraft): void {
  const [passed = 0, failed = 0, ignored = 0] = counts
  const seen = tests.filter(({ status }) => status === 'failed').map(({ name }) => name)
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
      // Before Rust 1.73 the message stood between: panicked at 'message', src/lib.rs:3:5
      const place = /(?:at|',) ([^\s:]{1,400}\.rs):(\d{1,7}):\d+/.exec(message)
      return { message, file: place?.[1] ?? null, line: place === null ? null : Number(place[2]) }
    },
  }
}
