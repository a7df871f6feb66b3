/** Adds up the lines that report-tests.ts wrote. */
import type { ReportLine } from './report-tests.ts'

export interface Tally {
  passed: number
  failed: number
  skipped: number
  /** Names of failed tests, and of files, hooks or processes that failed. */
  failures: string[]
  /** The names of the skipped tests by reason. */
  skips: Map<string, string[]>
  /** False when vitest did not finish. */
  complete: boolean
}

/** Sums up a report. An unfinished run counts as one more failure. */
export function tally(report: string): Tally {
  const lines = report
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ReportLine)
  const broken = new Set(lines.flatMap((line) => (line.type === 'broken' ? [line.file] : [])))
  const sum: Tally = { passed: 0, failed: 0, skipped: 0, failures: [], skips: new Map(), complete: false }
  for (const line of lines) {
    switch (line.type) {
      case 'passed':
        sum.passed++
        break
      case 'failed':
      case 'broken':
        sum.failed++
        sum.failures.push(`${line.file} > ${line.name}`)
        break
      case 'skipped': {
        sum.skipped++
        const reason = broken.has(line.file)
          ? 'the set-up of the suite failed'
          : line.reason || 'no reason given'
        sum.skips.set(reason, [...(sum.skips.get(reason) ?? []), `${line.file} > ${line.name}`])
        break
      }
      case 'end':
        sum.complete = !line.interrupted
        break
    }
  }
  if (!sum.complete) {
    sum.failed++
    sum.failures.push('the run did not reach its end')
  }
  return sum
}
