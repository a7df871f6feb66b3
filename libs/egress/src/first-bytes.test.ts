import { expect, it } from 'vitest'
import { protocolOf, type Protocol } from './first-bytes.ts'

it.each<[string, Protocol | null]>([
  ['', null],
  ['GET', null],
  ['GET /a b', null],
  ['\r\n\r\nGET / ', null],
  ['GET / HTTP/1.1\r\n', 'http'],
  ['\r\nget http://evil.example/ http/1.0\n', 'http'],
  ['BREW\t/ HTTP/1.1', 'http'],
  ['PRI * HTTP/2.0\r\n', 'http'],
  ['\x16\x03\x01', 'tls'],
  ['SSH-2.0-client\r\n', 'other'],
  ['EHLO a.example\r\n', 'other'],
  ['*1\r\n$4\r\nPING\r\n', 'other'],
  ['AMQP\0\0\x09\x01', 'other'],
  ['\0\0\0\x08', 'other'],
  ['BREW\t/', null],
  [`GET ${'a'.repeat(20_000)}`, 'http'],
])('%j begins %s', (text, protocol) => {
  expect(protocolOf(Buffer.from(text, 'latin1'))).toBe(protocol)
})
