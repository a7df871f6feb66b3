import { expect, it } from 'vitest'
import { redactSecrets } from './redaction.ts'

it.each([
  [`key cfd_${'0a'.repeat(20)} used`, 'key cfd_<redacted> used'],
  ['Authorization: Bearer abcdefgh.ijkl', 'Authorization: Bearer <redacted>'],
  ['connect postgres://app:hush@db:5432/x failed', 'connect postgres://app:<redacted>@db:5432/x failed'],
  ['redis://:hush@db', 'redis://:<redacted>@db'],
  ['GET /v1/executions at 12:30:00 by a@b', 'GET /v1/executions at 12:30:00 by a@b'],
])('redacts the secret in %j', (text, expected) => {
  expect(redactSecrets(text)).toBe(expected)
})
