import Anthropic from '@anthropic-ai/sdk'
import { expect, it } from 'vitest'
import { createReadDepth } from './read-depth.ts'

/** The SDK's client with answers of ours, and the requests that it sent. */
function clientFor(...answers: Response[]) {
  const requests: string[] = []
  const client = new Anthropic({
    apiKey: 'sk-ant-api03-canary',
    baseURL: 'http://control.invalid',
    fetch: async (url) => {
      requests.push(String(url instanceof Request ? url.url : url))
      const answer = answers.shift()
      if (answer === undefined) throw new Error('asked once too often')
      return answer
    },
  })
  return { readDepth: createReadDepth(client), requests }
}
const stats = (depth: unknown) =>
  Response.json({
    type: 'work_queue_stats',
    depth,
    pending: 99,
    oldest_queued_at: null,
    workers_polling: null,
  })
const signal = new AbortController().signal

it('reads the depth with one request of the SDK, and not `pending`', async () => {
  const { readDepth, requests } = clientFor(stats(7))
  expect(await readDepth('env_1', signal)).toBe(7)
  const paths = requests.map((url) => new URL(url).pathname.split('/').slice(1))
  expect(paths).toEqual([['v1', 'environments', 'env_1', 'work', 'stats']])
})

it.each([['many'], [-1], [1.5], [null]])('refuses %j as a depth', async (depth) => {
  const { readDepth } = clientFor(stats(depth))
  await expect(readDepth('env_1', signal)).rejects.toMatchObject({ code: 'protocol_violation' })
})

it('does not retry, because the next step reads again', async () => {
  const busy = Response.json({ type: 'error', error: { type: 'overloaded_error' } }, { status: 529 })
  const { readDepth, requests } = clientFor(busy, stats(1))
  await expect(readDepth('env_1', signal)).rejects.toMatchObject({ status: 529 })
  expect(requests).toHaveLength(1)
})
