/**
 * Decides what a test report means for the ending of an attempt. The exit code decides, but never in favour
 * of the tests: exit code 0 does not show that they pass if tests failed, none ran, or the report has no end.
 */
import type { Outcome, TestReport } from '@cofferdam/contract'

type Verdict = Pick<Outcome, 'ending' | 'reason'>

/** Failures that the sentence names. The report has the rest. */
const MAX_NAMED = 3
const MAX_MESSAGE = 200

/** The ending, and the caller's sentence. `text` is null where the usual failure reason says it better. */
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

/** The line that names the exception of a Python trace. The caller already has the place of its frames. */
const firstLine = (message: string): string => {
  const lines = message.split('\n').filter((text) => text.trim() !== '')
  const isTrace = lines[0]?.startsWith('Traceback ') === true
  const line = isTrace ? lines.find((text, n) => n > 0 && !/^\s/.test(text)) : lines[0]
  return (line ?? '').trim().slice(0, MAX_MESSAGE)
}
