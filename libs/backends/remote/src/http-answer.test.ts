import { expect, test } from 'vitest'
import { boundedBody, retryAfterMs } from './http-answer.ts'

test.each([
  ['3', 3000],
  ['0', 0],
  ['0.5', 500],
  ['', null],
  ['-1', null],
  ['1e3', null],
  ['9999999', null],
  ['Wed, 21 Oct 2026 07:28:00 GMT', null],
  [null, null],
  [undefined, null],
])('reads Retry-After %j as %s milliseconds', (header, ms) => {
  expect(retryAfterMs(header)).toBe(ms)
})

test('reads a body up to the limit, refuses one byte more, and reads no body as empty', async () => {
  const body = (): AsyncIterable<Uint8Array> => new Response('12345').body ?? expect.fail('no body')
  expect(String(await boundedBody('Vendor', body(), 5))).toBe('12345')
  await expect(boundedBody('Vendor', body(), 4)).rejects.toMatchObject({
    code: 'protocol_violation',
    message: 'Vendor: an answer above 4 bytes.',
  })
  expect(await boundedBody('Vendor', null, 4)).toHaveLength(0)
})
