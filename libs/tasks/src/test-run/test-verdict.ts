/**
 * What a test report changes about how an attempt ended. The exit code decides, but never against the tests: a runner
 * that exits with 0 although tests failed, none ran, or it was ended before its report, has not shown that they pass.
 */
import type { Outcome, TestReport } from '@cofferdam/contract'

type Verdict = Pick<Outcome, 'ending' | 'reason'>

/** Failures that the sentence names. The report has the rest. */
const MAX_NAMED = 3
const MAX_MESSAGE = 200

/** The ending with the tests in mind, and what the caller reads; `text` is null where the usual sentence says it better. */
export function testVerdict(
  verdict: Verdict,
  report: TestReport,
  /** False when the runner owed a report with an end, and left none. */
  ended: boolean,
  /** Why the runner itself was not there; null when it was. */
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
      `The ${report.framework} runner ended before it had written its report; a test may have ended the process. Tests that were seen: ${report.total}.`,
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

/** Of a Python trace the line that names the exception; its frames are the place, which is told already. */
const firstLine = (message: string): string => {
  const lines = message.split('\n').filter((text) => text.trim() !== '')
  const isTrace = lines[0]?.startsWith('Traceback ') === true
  const line = isTrace ? lines.find((text, n) => n > 0 && !/^\s/.test(text)) : lines[0]
  return (line ?? '').trim().slice(0, MAX_MESSAGE)
}
