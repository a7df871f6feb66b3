/** Reads what `cargo test` prints: stable Rust has no report of another form. */
import { linesOf } from './read-events.ts'
import type { ReportDraft, TestCase } from './report-draft.ts'

/** The contract's longest message. */
const MAX_OUTPUT = 8192

const STATUS: Readonly<Record<string, TestCase['status']>> = {
  ok: 'passed',
  FAILED: 'failed',
  ignored: 'skipped',
}

/** True when every test binary that began came to its result. */
export function readCargo(text: string, draft: ReportDraft): boolean {
  let running = 0
  let results = 0
  const tests: { name: string; status: TestCase['status'] }[] = []
  const outputs = new Map<string, string>()
  let block: string | null = null
  for (const line of linesOf(text)) {
    const test = !line.startsWith('test ')
      ? null
      : /^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b/.exec(line)
    const head = !line.startsWith('---- ') ? null : /^---- (.+) stdout ----$/.exec(line)
    if (/^running \d+ tests?$/.test(line)) running += 1
    else if (line.startsWith('test result: ')) {
      results += 1
      for (const one of tests) draft.add(caseOf(one, outputs))
      tests.length = 0
      outputs.clear()
      block = null
    } else if (test !== null) tests.push({ name: test[1] ?? '', status: STATUS[test[2] ?? ''] ?? 'skipped' })
    else if (head !== null) block = head[1] ?? ''
    else if (/^failures:$/.test(line)) block = null
    else if (block !== null) {
      const sofar = outputs.get(block) ?? ''
      if (sofar.length < MAX_OUTPUT) outputs.set(block, `${sofar}${line}\n`.slice(0, MAX_OUTPUT))
    }
  }
  // A binary that died has told some of its tests.
  for (const one of tests) draft.add(caseOf(one, outputs))
  return running > 0 && running === results
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
