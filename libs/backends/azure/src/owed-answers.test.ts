import { encodeFrame } from '@cofferdam/sandbox/guest'
import { expect, test } from 'vitest'
import { countOwedAnswers } from './owed-answers.ts'

function said(type: string, payload = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(5)
  head.write(type, 'latin1')
  head.writeUInt32LE(payload.length, 1)
  return Buffer.concat([head, payload])
}

test('an agent owes its greeting, then one answer per request, however the bytes are split', () => {
  const owed = countOwedAnswers()
  expect(owed.none).toBe(false)
  const greeting = said('R', Buffer.from('{}'))
  owed.heard(greeting.subarray(0, 3))
  expect(owed.none).toBe(false)
  owed.heard(greeting.subarray(3))
  expect(owed.none).toBe(true)

  owed.sent(Buffer.concat([encodeFrame('J', Buffer.from('{}')), encodeFrame('G'), encodeFrame('I')]))
  owed.sent(encodeFrame('P'))
  owed.heard(Buffer.concat([said('O', Buffer.from('XZA')), said('X')]))
  expect(owed.none).toBe(false)
  owed.heard(said('A'))
  expect(owed.none).toBe(true)

  owed.sent(encodeFrame('B', Buffer.from('a')))
  owed.heard(Buffer.concat([said('B', Buffer.from('hname')), said('B', Buffer.from('dbytes'))]))
  expect(owed.none).toBe(false)
  owed.heard(said('B', Buffer.from('e')))
  expect(owed.none).toBe(true)
  // These frames have no answer.
  owed.sent(Buffer.concat([encodeFrame('S', Buffer.alloc(4)), encodeFrame('I', Buffer.from('late'))]))
  expect(owed.none).toBe(true)
})
