import { expect, test } from 'vitest'
import { refused } from './claim-answers.ts'

test.each([
  ['too many requests', 429, 'too many requests, please try again later', true],
  [
    'a quota of claims that is used up',
    403,
    'sandboxclaims "x" is forbidden: exceeded quota: claims, used: count/sandboxclaims=9',
    true,
  ],
  ['rights that are missing', 403, 'sandboxclaims is forbidden: User "x" cannot create resource', false],
  ['a server that is out', 503, 'the server is currently unable to handle the request', false],
])('tells for %s whether it passes when other sandboxes end', (_what, status, message, isFull) => {
  const { code, details } = refused({ status, body: { message }, retryAfterMs: 2_000 })
  expect([code, details['full'] === true, details['retry_after_ms']]).toEqual([
    'backend_unavailable',
    isFull,
    2_000,
  ])
})
