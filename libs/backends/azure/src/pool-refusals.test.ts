import { expect, test } from 'vitest'
import type { PoolCall } from './pool-call.ts'
import { refusalOf } from './pool-refusals.ts'

const NAME = 'j1abcdef0123456789'
const call = (more: Partial<PoolCall> = {}): PoolCall => ({
  method: 'POST',
  path: '/executions',
  identifier: NAME,
  isRepeatable: false,
  ...more,
})
const refused = (status: number, error: object, more: Partial<PoolCall> = {}) =>
  refusalOf(
    { status, type: 'application/json', body: Buffer.from(JSON.stringify({ error })), retryAfterMs: null },
    call(more),
  )

test('an error quotes nothing of an answer that contains the identifier', () => {
  for (const more of [
    {},
    { identifier: undefined, query: { identifier: NAME } } as unknown as Partial<PoolCall>,
  ])
    for (const error of [
      { code: 'Bad', message: NAME, target: `session/${NAME}`, traceId: NAME },
      { code: NAME, message: NAME },
    ]) {
      const { message, details } = refused(400, error, more)
      expect(JSON.stringify([message, details])).not.toContain(NAME)
    }
  expect(refused(400, { code: 'Bad', target: 'code', traceId: 't1' }).details).toMatchObject({
    azure: 'Bad',
    target: 'code',
    trace: 't1',
  })
})

test.each([
  [409, {}, 'sandbox_lost'],
  [410, {}, 'sandbox_lost'],
  // How older documentation reports a full pool.
  [404, { allocates: true }, 'backend_unavailable'],
  [404, {}, 'sandbox_lost'],
  [413, {}, 'payload_too_large'],
  [429, {}, 'backend_unavailable'],
  [503, {}, 'backend_unavailable'],
  [400, {}, 'sandbox_open_failed'],
] as const)('status %i for a call with %j becomes the error %s', (status, more, code) => {
  expect(refused(status, { code: 'Whatever', message: '' }, more).code).toBe(code)
})
