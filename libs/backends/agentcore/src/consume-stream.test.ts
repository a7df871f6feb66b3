import type { CodeInterpreterStreamOutput } from '@aws-sdk/client-bedrock-agentcore'
import { expect, test } from 'vitest'
import { consumeStream } from './consume-stream.ts'

const MILLION = 'x'.repeat(1_000_000)
const event = (stdout: string, text = ''): CodeInterpreterStreamOutput => ({
  result: { content: [{ type: 'text', text }], structuredContent: { stdout, exitCode: 0 } },
})

test('accepts a growing result however often the service sends it', async () => {
  const heard: string[] = []
  const { stdout } = await consumeStream(
    (async function* () {
      for (let n = 1; n <= 250; n += 1) yield event(MILLION + 'y'.repeat(n))
    })(),
    async (_source, text) => void heard.push(text),
  )
  expect(stdout.length).toBe(MILLION.length + 250)
  expect(heard.join('')).toBe(stdout)
})

test.each([
  ['in parts of a stream', () => event(`${Math.random()}${MILLION}`)],
  ['as text', () => event('', MILLION)],
])('stops reading an answer that does not end: %s', async (_how, next) => {
  let read = 0
  const endless = (async function* () {
    for (; ; read += 1) yield next()
  })()
  await expect(consumeStream(endless)).rejects.toMatchObject({ code: 'protocol_violation' })
  expect(read).toBeLessThanOrEqual(200)
})
