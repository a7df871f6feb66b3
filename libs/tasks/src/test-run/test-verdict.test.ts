/** What a report means for the ending, and what the caller reads. */
import type { TestReport } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { testVerdict } from './test-verdict.ts'

const reportOf = (fields: Partial<TestReport>): TestReport => ({
  framework: 'pytest',
  command: 'python3 -m pytest',
  total: 2,
  passed: 2,
  failed: 0,
  errored: 0,
  skipped: 0,
  duration_ms: 1,
  failures: [],
  failures_omitted: 0,
  complete: true,
  ...fields,
})
const OK = { ending: 'ok', reason: null } as const
const ERROR = { ending: 'error', reason: null } as const

describe('the verdict of a test run', () => {
  it('is the exit code when the report agrees with it', () => {
    expect(testVerdict(OK, reportOf({}), true)).toEqual({ ...OK, text: null })
    expect(testVerdict(ERROR, reportOf({}), true)).toEqual({ ...ERROR, text: null })
  })

  it('names the first failures, and counts the rest', () => {
    const failure = (name: string, line: number | null) => ({
      name,
      file: 'tests/test_x.py',
      line,
      message:
        'Traceback (most recent call last):\n  File "a.py", line 12, in f\n    assert 1 == 2\nAssertionError: no\nmore',
    })
    const failures = [failure('test_add', 12), failure('test_sub', null)]
    const { ending, reason, text } = testVerdict(
      ERROR,
      reportOf({ total: 41, failed: 5, errored: 1, failures }),
      true,
    )
    expect({ ending, reason }).toEqual({ ending: 'error', reason: 'tests_failed' })
    expect(text).toBe(
      '6 of 41 tests failed (1 could not be run): test_add (tests/test_x.py:12) AssertionError: no; test_sub (tests/test_x.py) AssertionError: no; and 4 more',
    )
  })

  it('is an error when tests failed although the command exited with 0', () => {
    expect(testVerdict(OK, reportOf({ failed: 1 }), true)).toMatchObject({
      ending: 'error',
      reason: 'tests_failed',
    })
  })

  it('is an error when no test ran, or when the runner ended before its report was complete', () => {
    expect(testVerdict(OK, reportOf({ total: 0, passed: 0 }), true)).toMatchObject({
      ending: 'error',
      reason: 'no_tests',
      text: 'pytest found no tests ("python3 -m pytest").',
    })
    expect(testVerdict(OK, reportOf({ complete: false }), false)).toMatchObject({
      reason: 'tests_incomplete',
    })
    expect(testVerdict(OK, reportOf({ complete: false }), true)).toMatchObject(OK)
  })

  it('never hides a stop, a crash or a limit', () => {
    for (const ending of [
      'soft_timeout',
      'hard_timeout',
      'oom',
      'crashed',
      'cancelled',
      'disk_limit',
    ] as const)
      expect(testVerdict({ ending, reason: null }, reportOf({ failed: 1 }), false)).toEqual({
        ending,
        reason: null,
        text: null,
      })
  })
})
