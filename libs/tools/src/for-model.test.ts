import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { emptyResult, type CodeResult } from './code-result.ts'
import { forModel, textForModel } from './for-model.ts'

const ended = (more: Partial<CodeResult> = {}): CodeResult =>
  emptyResult('ended', {
    ok: true,
    ending: 'ok',
    exit_code: 0,
    duration_ms: 41.4,
    execution_id: 'exe_1',
    ...more,
  })

const soon = (ms: number): string => new Date(Date.now() + ms).toISOString()

describe('the text for a model', () => {
  it('says how the program ended, then what it printed', () => {
    const result = ended({ stdout: '2\n', stdout_bytes: 2, value: { total: 2 } })
    expect(textForModel(result)).toBe(
      'Ended: ok, exit code 0, 41 ms. execution_id: exe_1\n\nvalue:\n{"total":2}\n\nstdout, 2 bytes:\n2',
    )
  })

  it('never has more characters than asked for, whatever the result has', () => {
    const long = fc.string({ maxLength: 40 }).chain((text) => fc.nat(900).map((times) => text.repeat(times)))
    const results = fc.record({
      stdout: long,
      stderr: long,
      value: fc.option(long, { nil: undefined }),
      stdout_tail: fc.option(long, { nil: undefined }),
      error: fc.option(fc.constant('SandboxError'), { nil: undefined }),
      error_message: long,
      problem: fc.option(
        fc.record({ code: fc.constant('x'), message: long, retry: fc.constantFrom('never', 'later') }),
        { nil: undefined },
      ),
      artifacts: fc.array(fc.record({ path: long, size: fc.nat() }), { maxLength: 5 }),
    })
    fc.assert(
      fc.property(results, fc.integer({ min: 1000, max: 30_000 }), (more, maxChars) => {
        const text = textForModel(ended(more as Partial<CodeResult>), { maxChars })
        expect(text.length).toBeLessThanOrEqual(maxChars)
        expect(text.startsWith('Ended: ok')).toBe(true)
      }),
    )
  })

  it('shows head and tail of a long output, says what is missing, and keeps the end of a traceback', () => {
    const stderr = `${'noise\n'.repeat(5000)}Traceback (most recent call last):\nValueError: mauve\n`
    const text = textForModel(
      ended({
        ok: false,
        ending: 'error',
        exit_code: 1,
        stdout: `first\n${'x'.repeat(32_000)}`,
        stdout_tail: `${'y'.repeat(3000)}\nlast`,
        stdout_bytes: 1_000_000,
        stdout_truncated: true,
        stderr,
        stderr_bytes: stderr.length,
      }),
      { maxChars: 6000 },
    )
    expect(text.length).toBeLessThanOrEqual(6000)
    expect(text).toContain('stdout, 1000000 bytes:\nfirst\n')
    expect(text).toContain('y\nlast')
    expect(text).toMatch(/\d+ characters left out/)
    expect(text).toContain('Not all of the output is here.')
    expect(text.trimEnd().endsWith('Traceback (most recent call last):\nValueError: mauve')).toBe(true)
  })

  it('has nothing that moves a cursor or hides words', () => {
    const hostile = '\u001b[2J\u001b]0;x\u0007\u202eevil\u{e0041}\r\n'
    const text = textForModel(
      ended({
        stdout: hostile,
        stderr: hostile,
        stdout_tail: hostile,
        value: hostile,
        error: 'SandboxError',
        error_message: hostile,
        artifacts: [{ path: `a\n${hostile}`, size: 1 }],
        images: [{ path: hostile, media_type: 'image/png', data: '' }],
      }),
    )
    // oxlint-disable-next-line no-control-regex
    expect(text).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u{e0000}-\u{e007f}]/u)
    expect(text).toContain('evil')
  })

  it.each([
    [
      'a cap, with the moment to come back',
      { code: 'cap_exceeded', message: 'The tenant used its 5 runs', retry: 'later', retry_at: soon(7.2e6) },
      /^Refused: cap_exceeded\. Nothing ran\.\n.* Do not repeat the call before \S+Z \(in 2 h 0 min\)\.$/,
    ],
    [
      'a policy, which will not change',
      { code: 'policy_denied', message: 'No network.', retry: 'never' },
      /^Refused: policy_denied\. Nothing ran\.\nNo network\. The same call will be refused again\./,
    ],
    [
      'a full queue without a moment',
      { code: 'queue_full', message: 'Too many.', retry: 'later' },
      /^Refused: queue_full\. Nothing ran\.\nToo many\. The same call may work later\.$/,
    ],
  ] as const)('names %s', (_name, problem, text) => {
    expect(textForModel(emptyResult('refused', { problem }))).toMatch(text)
  })

  it.each([
    [emptyResult('running', { execution_id: 'exe_1' }), 'Not ended yet. It goes on. execution_id: exe_1'],
    [emptyResult('cancelled'), 'Cancelled.'],
    [
      emptyResult('failed', { problem: { code: 'internal', message: 'Oops.', retry: 'later' } }),
      'The sandbox failed: internal.\nOops. The same call may work later.',
    ],
  ])('tells a call without an answer', (result, text) => {
    expect(textForModel(result)).toBe(text)
  })
})

it('gives images as parts of their own after the text', () => {
  const images = [{ path: 'plot.png', media_type: 'image/png', data: 'AAAA' }]
  const artifacts = [{ path: 'plot.png', size: 3 }]
  expect(forModel(ended({ images, artifacts }))).toEqual([
    { type: 'text', text: expect.stringContaining('Shown as images: plot.png\nArtifacts: plot.png') },
    { type: 'image', mediaType: 'image/png', data: 'AAAA', name: 'plot.png' },
  ])
})

it('refuses a bound that is too small for a useful text', () => {
  expect(() => forModel(ended(), { maxChars: 999 })).toThrow(RangeError)
})
