/**
 * Reads counts from the summary that a framework prints, for runs without a report. The last summary in the
 * output counts. This is best effort, so a report made from it is never complete.
 */
import type { TestFramework, TestReport } from '@cofferdam/contract'
import { plainText } from './report-draft.ts'

export type Counts = Pick<TestReport, 'total' | 'passed' | 'failed' | 'errored' | 'skipped'>

export interface Printed {
  framework: TestFramework | null
  counts: Counts
}

/** A summary line has a few words before each count. No framework prints a longer line. */
const MAX_LINE = 400

type Tally = Partial<Omit<Counts, 'total'>>
type Reader = (lines: readonly string[]) => { at: number; tally: Tally } | null

/** Null when the text has no known summary. */
export function readPrinted(text: string): Printed | null {
  const lines = plainText(text)
    .split('\n')
    .map((line) => (line.length > MAX_LINE ? '' : line.trim()))
  let last: { at: number; printed: Printed } | null = null
  for (const [framework, read] of READERS) {
    const found = read(lines)
    if (found !== null && (last === null || found.at > last.at))
      last = { at: found.at, printed: { framework, counts: counted(found.tally) } }
  }
  return last?.printed ?? null
}

function counted({ passed = 0, failed = 0, errored = 0, skipped = 0 }: Tally): Counts {
  return { total: passed + failed + errored + skipped, passed, failed, errored, skipped }
}

const WORDS: Readonly<Record<string, keyof Tally>> = {
  passed: 'passed',
  pass: 'passed',
  passing: 'passed',
  xpassed: 'passed',
  failed: 'failed',
  fail: 'failed',
  failing: 'failed',
  failures: 'failed',
  cancelled: 'failed',
  error: 'errored',
  errors: 'errored',
  skipped: 'skipped',
  xfailed: 'skipped',
  todo: 'skipped',
  pending: 'skipped',
  ignored: 'skipped',
}

/** Adds up `3 failed, 2 passed`, with number and word in either order. */
function tallyOf(text: string): Tally {
  const tally: Tally = {}
  for (const [, number, word] of text.matchAll(/(\d{1,9}) ([a-z]+)/g)) {
    const kind = WORDS[word ?? '']
    if (kind !== undefined) tally[kind] = (tally[kind] ?? 0) + Number(number)
  }
  return tally
}

/** The last line that matches has all counts. */
const oneLine =
  (form: RegExp): Reader =>
  (lines) => {
    const at = lines.findLastIndex((line) => form.test(line))
    return at === -1 ? null : { at, tally: tallyOf(lines[at] ?? '') }
  }

/** Adjacent lines of one count each: `# pass 3`. */
const together =
  (form: RegExp, nameAt: number, numberAt: number): Reader =>
  (lines) => {
    const end = lines.findLastIndex((line) => form.test(line))
    if (end === -1) return null
    const tally: Tally = {}
    const seen = new Set<string>()
    for (let at = end; at >= 0; at--) {
      const found = form.exec(lines[at] ?? '')
      const kind = WORDS[found?.[nameAt] ?? '']
      if (found === null && lines[at] !== '') break
      if (found === null || kind === undefined) continue
      const word = found[nameAt] ?? ''
      if (seen.has(word)) break
      seen.add(word)
      tally[kind] = (tally[kind] ?? 0) + Number(found[numberAt])
    }
    return { at: end, tally }
  }

const unittest: Reader = (lines) => {
  const at = lines.findLastIndex((line) => /^Ran \d+ tests? in /.test(line))
  const verdict =
    at === -1 ? -1 : lines.findIndex((line, n) => n > at && /^(OK|FAILED|NO TESTS RAN)\b/.test(line))
  if (verdict === -1) return null
  const count = (name: string): number =>
    Number(new RegExp(`\\b${name}=(\\d+)`).exec(lines[verdict] ?? '')?.[1] ?? 0)
  const failed = count('failures') + count('unexpected successes')
  const [errored, skipped] = [count('errors'), count('skipped')]
  const ran = Number(/\d+/.exec(lines[at] ?? '')?.[0] ?? 0)
  return {
    at: verdict,
    tally: { passed: Math.max(0, ran - failed - errored - skipped), failed, errored, skipped },
  }
}

const cargo: Reader = (lines) => {
  const tally: Tally = {}
  let at = -1
  lines.forEach((line, n) => {
    if (!/^test result: (ok|FAILED)\. \d+ passed/.test(line)) return
    at = n
    for (const [kind, count] of Object.entries(tallyOf(line)) as [keyof Tally, number][])
      tally[kind] = (tally[kind] ?? 0) + count
  })
  return at === -1 ? null : { at, tally }
}

const go: Reader = (lines) => {
  const count = (form: RegExp): number => lines.filter((line) => form.test(line)).length
  const at = lines.findLastIndex((line) => /^(ok|FAIL)\s+\S+\s+[\d.]+s/.test(line))
  if (at === -1) return null
  return {
    at,
    tally: {
      passed: count(/^--- PASS: /),
      failed: count(/^--- FAIL: /),
      skipped: count(/^--- SKIP: /),
    },
  }
}

/**
 * Counts the test points of a TAP stream that has a plan. Comments are skipped. The lines were trimmed
 * before, so the points of indented subtests count, too.
 */
const tap: Reader = (lines) => {
  const at = lines.findLastIndex((line) => /^1\.\.\d+/.test(line))
  if (at === -1) return null
  const tally = { passed: 0, failed: 0, skipped: 0 }
  for (const line of lines) {
    const point = /^(not )?ok\b(.*)$/.exec(line)
    if (point === null) continue
    if (/#\s*(skip|todo)/i.test(point[2] ?? '')) tally.skipped += 1
    else if (point[1] === undefined) tally.passed += 1
    else tally.failed += 1
  }
  return { at, tally }
}

const READERS: readonly [TestFramework | null, Reader][] = [
  [
    'pytest',
    oneLine(
      /^=*\s*\d+ (passed|failed|error|errors|skipped|xfailed|xpassed|deselected|warnings?)\b.* in [\d.]+s/,
    ),
  ],
  ['unittest', unittest],
  ['vitest', oneLine(/^Tests\s+\d+ (failed|passed|skipped|todo)\b.*\(\d+\)$/)],
  ['jest', (lines) => oneLine(/^Tests:\s+\d+ (failed|passed|skipped|todo)\b.*\btotal$/)(lines)],
  ['mocha', together(/^(\d+) (passing|failing|pending)\b/, 2, 1)],
  ['cargo', cargo],
  ['go', go],
  // node:test in its spec form, and as TAP.
  ['node:test', together(/^ℹ (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) ([\d.]+)$/, 1, 2)],
  [null, together(/^# (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms|ok)\s*([\d.]*)$/, 1, 2)],
  // ava
  [null, together(/^(\d+) tests? (passed|failed|skipped|todo)\b/, 2, 1)],
  [null, tap],
]
