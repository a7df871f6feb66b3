import { CofferdamError } from '@cofferdam/contract'
import { describe, expect, test } from 'vitest'
import { isGone, isRefused, isThrottled, lostSandbox, openFailure } from './classify-failure.ts'

const failed = (name: string, message = 'said so'): Error => Object.assign(new Error(message), { name })

describe('a failure of the service', () => {
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
    'of class %s: refused %s; %s while opening, and its program is lost for %s',
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

  test('is throttling, or a thing that is gone, by its class alone', () => {
    const all = ['ThrottlingException', 'ResourceNotFoundException', 'InternalServerException'].map((name) =>
      failed(name, 'ThrottlingException ResourceNotFoundException'),
    )
    expect(all.map(isThrottled)).toEqual([true, false, false])
    expect(all.map(isGone)).toEqual([false, true, false])
    expect([isThrottled('ThrottlingException'), isRefused(null)]).toEqual([false, false])
  })

  test('says that the session’s time was over where the conflict says so', () => {
    const late = failed('ConflictException', 'Session x exceeded its session timeout of 60 seconds')
    expect(lostSandbox(late).details).toMatchObject({ reason: 'session_timeout' })
  })

  test('keeps AWS’s words, short, and no key id', () => {
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

  test('of ours is what it was, but a sandbox that was lost while opening is none yet', () => {
    const ours = new CofferdamError('protocol_violation', 'no')
    expect([openFailure(ours, 'readiness'), lostSandbox(ours)]).toEqual([ours, ours])
    expect(openFailure(new CofferdamError('sandbox_lost'), 'readiness').code).toBe('backend_unavailable')
  })
})
