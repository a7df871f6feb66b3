/**
 * Who gets which item, and when. The queue accepts longer waits than the API (999 ms), so a test hangs if a
 * wake-up is missed.
 */
import { expect, it } from 'vitest'
import { WorkQueue, type Poll } from './work-queue.ts'

const LONG_MS = 600_000
const session = (id: string) => ({ type: 'session' as const, id })
const pollOf = (change: Partial<Poll> = {}): Poll => ({
  blockMs: LONG_MS,
  reclaimMs: LONG_MS,
  signal: new AbortController().signal,
  ...change,
})

it('a new item wakes the poll that has waited longest', async () => {
  const queue = new WorkQueue('env')
  const polls = [1, 2, 3].map(() => queue.poll(pollOf()))
  const items = ['a', 'b', 'c'].map((id) => queue.enqueue(session(id)))
  expect(await Promise.all(polls)).toEqual(items)
  queue.close()
})

it('an item whose lease ends wakes a poll', async () => {
  const queue = new WorkQueue('env')
  const item = queue.enqueue(session('a'))
  await queue.poll(pollOf())
  item.ack(LONG_MS)
  const waiting = queue.poll(pollOf())
  item.expire()
  expect(await waiting).toBe(item)
  queue.close()
})

it('a waiting poll gets an item as soon as it may be offered again', async () => {
  const queue = new WorkQueue('env')
  const item = queue.enqueue(session('a'))
  await queue.poll(pollOf())
  expect(await queue.poll(pollOf({ reclaimMs: 20 }))).toBe(item)
  expect(item.deliveries).toBe(2)
  queue.close()
})

it('a poll whose client goes takes nothing', async () => {
  const queue = new WorkQueue('env')
  const gone = new AbortController()
  const waiting = queue.poll(pollOf({ signal: gone.signal }))
  gone.abort()
  const item = queue.enqueue(session('a'))
  expect(await waiting).toBeNull()
  expect(item.deliveries).toBe(0)
  queue.close()
})

it('an item that is asked to stop is not offered, and one that waited longer comes first', async () => {
  const queue = new WorkQueue('env')
  const [stopped, old, young] = ['a', 'b', 'c'].map((id) => queue.enqueue(session(id)))
  stopped?.stop(false)
  expect(await queue.poll(pollOf())).toBe(old)
  expect(await queue.poll(pollOf())).toBe(young)
  expect(await queue.poll(pollOf({ blockMs: 0 }))).toBeNull()
  queue.close()
})
