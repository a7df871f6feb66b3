/** Events in every form that proto3's JSON allows, and in invalid forms. */
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { encodeMessage } from './connect-messages.ts'
import { openProcessStream } from './process-stream.ts'

const START = { event: { start: { pid: 7 }, data: null, end: null, keepalive: null } }
const END = { event: { end: { status: null } } }

async function printed(...events: object[]): Promise<string> {
  async function* body(): AsyncGenerator<Buffer> {
    for (const event of events) yield encodeMessage(event)
  }
  const sendInput = async (): Promise<void> => {}
  const channel = await openProcessStream(body(), { sendInput, stop: new AbortController() })
  return await text(channel.readable)
}

test('accepts null for an absent field', async () => {
  const data = { stdout: 'aGk=', stderr: null, pty: null }
  expect(await printed({ event: null }, START, { event: { start: null, data, end: null } }, END)).toBe('hi')
})

test.each(['4pyT8J+Yug==', '4pyT8J+Yug', '4pyT8J-Yug'])('accepts bytes in the form %s', async (stdout) => {
  expect(await printed(START, { event: { data: { stdout } } }, END)).toBe('✓😺')
})

test.each(['4pyT8', '4pyT\n8J8=', '4pyT=8J8', '4p.T', 5])('refuses bytes in the form %j', async (stdout) => {
  await expect(printed(START, { event: { data: { stdout } } }, END)).rejects.toMatchObject({
    code: 'protocol_violation',
  })
})
