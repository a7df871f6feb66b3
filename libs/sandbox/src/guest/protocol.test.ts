import { describe, expect, test } from 'vitest'
import { createFrameDecoder, encodeFrame, TO_AGENT_MAX, TO_HOST_MAX } from './protocol.ts'

const frame = (type: string, payload: Uint8Array): Buffer => {
  const head = Buffer.alloc(5)
  head.write(type, 'latin1')
  head.writeUInt32LE(payload.length, 1)
  return Buffer.concat([head, payload])
}

describe('the frame decoder', () => {
  test('finds the same frames however the stream is split', () => {
    const frames = [
      frame('O', Buffer.from('abc')),
      frame('E', Buffer.alloc(0)),
      frame('X', Buffer.alloc(300, 7)),
    ]
    const stream = Buffer.concat(frames)
    for (const size of [1, 2, 3, 5, 7, 64, 1000]) {
      const decoder = createFrameDecoder()
      const seen: string[] = []
      for (let at = 0; at < stream.length; at += size)
        for (const { type, payload } of decoder.push(stream.subarray(at, at + size)))
          seen.push(`${type}${payload.toString('hex')}`)
      expect(seen).toEqual(['O616263', 'E', `X${'07'.repeat(300)}`])
    }
  })

  test('assembles a flood of split frames in one reused buffer', () => {
    const decoder = createFrameDecoder()
    const stream = Buffer.concat(Array.from({ length: 50 }, () => frame('O', Buffer.alloc(TO_HOST_MAX, 'x'))))
    const used = new Set<ArrayBufferLike>()
    let bytes = 0
    for (let at = 0; at < stream.length; at += TO_HOST_MAX)
      for (const { payload } of decoder.push(stream.subarray(at, at + TO_HOST_MAX))) {
        bytes += payload.length
        if (payload.buffer !== stream.buffer) used.add(payload.buffer)
      }
    expect([bytes, used.size]).toEqual([50 * TO_HOST_MAX, 1])
  })

  test('accepts a frame of 64 KiB and refuses one byte more before it arrives', () => {
    const [largest] = [...createFrameDecoder().push(frame('O', Buffer.alloc(TO_HOST_MAX)))]
    expect(largest?.payload.length).toBe(TO_HOST_MAX)
    const head = frame('O', Buffer.alloc(0))
    head.writeUInt32LE(TO_HOST_MAX + 1, 1)
    expect(() => [...createFrameDecoder().push(head)]).toThrow(
      expect.objectContaining({ code: 'protocol_violation' }),
    )
  })

  test.each(['J', 'G', '\0', '\xff', 'x'])('refuses the frame type %j', (type) => {
    expect(() => [...createFrameDecoder().push(frame(type, Buffer.alloc(0)))]).toThrow(
      expect.objectContaining({ code: 'protocol_violation' }),
    )
  })
})

test('refuses to send a larger frame than the agent accepts', () => {
  expect(encodeFrame('I', Buffer.from('hi')).toString('latin1')).toBe('I\x02\0\0\0hi')
  expect(() => encodeFrame('F', Buffer.alloc(TO_AGENT_MAX + 1))).toThrow(RangeError)
})
