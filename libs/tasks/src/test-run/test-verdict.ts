/**
 * Decides what a test report means for the ending of an attempt. The exit code decides, but exit code 0 is
 * not enough: the attempt still fails if tests failed, no test ran, or the runner did not reach its end.
 */
import type { Outcome, TestReport } from '@cofferdam/contract'

type Verdict = Pick<Outcome, 'ending' | 'reason'>

/** The most failures that the caller's sentence names. The report lists the rest. */
const MAX_NAMED = 3
const MAX_MESSAGE = 200

/**
 * Returns the ending, and a sentence for the caller. `text` is null where the usual failure reason is better.
 */
export function testVerdict(
  verdict: Verdict,
  report: TestReport,
  /** False when the runner should have left a complete report, and did not. */
  ended: boolean,
  /** Why the runner was missing. Null when it was there. */
  missing: string | null = null,
): Verdict & { text: string | null } {
  if (verdict.ending !== 'ok' && verdict.ending !== 'error') return { ...verdict, text: null }
  const bad = report.failed + report.errored
  const failed = (reason: string, text: string) => ({
    ending: 'error' as const,
    reason: verdict.reason ?? reason,
    text,
  })
  if (bad > 0) return failed('tests_failed', failures(report))
  if (missing !== null && report.total === 0) return failed('runner_missing', missing)
  if (!ended && verdict.ending === 'ok')
    return failed(
      'tests_incomplete',
      `The ${report.framework} runner ended before it had written its report; a test may have ` +
        'ended the process. ' +
        `Tests that were seen: ${report.total}.`,
    )
  if (report.total === 0 && report.complete)
    return failed('no_tests', `${report.framework} found no tests ("${report.command}").`)
  return { ...verdict, text: null }
}

function failures({ total, failed, errored, failures: list }: TestReport): string {
  const bad = failed + errored
  const counts = `${bad} of ${total} ${total === 1 ? 'test' : 'tests'} failed`
  const errors = errored === 0 ? '' : ` (${errored} could not be run)`
  const named = list.slice(0, MAX_NAMED).map(({ name, file, line, message }) => {
    const place = file === null ? '' : ` (${line === null ? file : `${file}:${line}`})`
    const said = firstLine(message)
    return `${name.slice(0, MAX_MESSAGE)}${place}${said === '' ? '' : ` ${said}`}`
  })
  const more = bad > named.length && named.length > 0 ? `; and ${bad - named.length} more` : ''
  return `${counts}${errors}${named.length === 0 ? '.' : `: ${named.join('; ')}${more}`}`
}

/**
 * Returns the first line of a message. For a Python trace, returns the line that names the exception, because
 * the caller already knows the file and line.
 */
const firstLine = (message: string): string => {
  const lines = message.split('\n').filter((text) => text.trim() !== '')
  const isTrace = lines[0]?.startsWith('Traceback ') === true
  const line = isTrace ? lines.find((text, n) => n > 0 && !/^\s/.test(text)) : lines[0]
  return (line ?? '').trim().slice(0, MAX_MESSAGE)
}
