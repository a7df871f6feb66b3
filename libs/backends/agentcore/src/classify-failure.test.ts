import { CofferdamError } from '@cofferdam/contract'
import { describe, expect, test } from 'vitest'
import { isGone, isRefused, isThrottled, lostSandbox, openFailure } from './classify-failure.ts'

const failed = (name: string, message = 'said so'): Error => Object.assign(new Error(message), { name })

describe('classification of AgentCore’s failures', () => {
  test.each([
    ['ThrottlingException', true, 'backend_unavailable', 'ThrottlingException'],
    ['ServiceQuotaExceededException', true, 'backend_unavailable', 'ServiceQuotaExceededException'],
    ['AccessDeniedException', true, 'backend_unavailable', 'AccessDeniedException'],
    ['ValidationException', true, 'sandbox_open_failed', 'ValidationException'],
    ['ResourceNotFoundException', true, 'sandbox_open_failed', 'session_lost'],
    ['ConflictException', false, 'sandbox_open_failed', 'ConflictException'],
    ['InternalServerException', false, 'backend_unavailable', 'InternalServerException'],
    ['TimeoutError', false, 'backend_unavailable', 'TimeoutError'],
    ['brandNewException', false, 'backend_unavailable', 'brandNewException'],
  ])(
    '%s: refused is %s, error is %s while opening, and a program is lost with reason %s',
    (name, refused, code, reason) => {
      const error = failed(name)
      expect(isRefused(error)).toBe(refused)
      expect(openFailure(error, 'session_start')).toMatchObject({
        code,
        cause: error,
        details: { reason: `session_start:${name}` },
      })
      expect(lostSandbox(error)).toMatchObject({ code: 'sandbox_lost', details: { reason } })
    },
  )

  test('recognises throttling and missing resources by the error class alone', () => {
    const all = ['ThrottlingException', 'ResourceNotFoundException', 'InternalServerException'].map((name) =>
      failed(name, 'ThrottlingException ResourceNotFoundException'),
    )
    expect(all.map(isThrottled)).toEqual([true, false, false])
    expect(all.map(isGone)).toEqual([false, true, false])
    expect([isThrottled('ThrottlingException'), isRefused(null)]).toEqual([false, false])
  })

  test('reports an expired session if the conflict’s message says so', () => {
    const late = failed('ConflictException', 'Session x exceeded its session timeout of 60 seconds')
    expect(lostSandbox(late).details).toMatchObject({ reason: 'session_timeout' })
  })

  test('keeps AWS’s message, shortened and without key IDs', () => {
    const { message } = openFailure(
      failed(
        'AccessDeniedException',
        `AKIAIOSFODNN7EXAMPLE may not StartSession on arn:aws:x ${'y'.repeat(1000)}`,
      ),
      'session_start',
    )
    expect(message).toContain('<redacted> may not StartSession on arn:aws:x')
    expect(message.length).toBeLessThan(400)
  })

  test('keeps our own errors, except a sandbox lost while it opened', () => {
    const ours = new CofferdamError('protocol_violation', 'no')
    expect([openFailure(ours, 'readiness'), lostSandbox(ours)]).toEqual([ours, ours])
    expect(openFailure(new CofferdamError('sandbox_lost'), 'readiness').code).toBe('backend_unavailable')
  })
})
