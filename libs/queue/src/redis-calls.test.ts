import { expect, it } from 'vitest'
import { boundedAnswer, createGathering } from './redis-calls.ts'

it('sends the calls of one turn together, in order, and each caller gets its own answer', async () => {
  const sent: (readonly number[])[] = []
  const double = createGathering<number, number>((items) => {
    sent.push(items)
    return Promise.resolve(items.map((item) => 2 * item))
  }, 10)
  const later = async (item: number): Promise<number> => {
    await Promise.resolve()
    return await double(item)
  }
  expect(await Promise.all([double(1), later(3), double(2)])).toEqual([2, 6, 4])
  expect(await double(4)).toBe(8)
  expect(sent).toEqual([[1, 2, 3], [4]])
})

it('sends at most the given number of calls at a time', async () => {
  const sizes: number[] = []
  const call = createGathering<number, number>((items) => {
    sizes.push(items.length)
    return Promise.resolve(items)
  }, 3)
  const items = [1, 2, 3, 4, 5, 6, 7]
  expect(await Promise.all(items.map(call))).toEqual(items)
  expect(sizes).toEqual([3, 3, 1])
})

it('an Error as an answer fails one call, and a rejection fails all', async () => {
  const one = createGathering<number, number>(
    (items) => Promise.resolve(items.map((item) => (item === 2 ? new Error('the second') : item))),
    10,
  )
  const settled = await Promise.allSettled([one(1), one(2), one(3)])
  expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  const all = createGathering<number, number>(() => Promise.reject(new Error('away')), 10)
  for (const { status } of await Promise.allSettled([all(1), all(2)])) expect(status).toBe('rejected')
})

it('throws queue_unavailable for a failed or slow call, and reports the late answer', async () => {
  const slow = Promise.withResolvers<string>()
  const heard: (string | null)[] = []
  await expect(
    boundedAnswer(slow.promise, 1, 'a script', (answer) => heard.push(answer)),
  ).rejects.toMatchObject({ code: 'queue_unavailable', message: 'a script did not answer in 1 ms' })
  expect(heard).toEqual([])
  slow.resolve('done')
  await slow.promise
  expect(heard).toEqual(['done'])
  await expect(
    boundedAnswer(Promise.reject(new Error('closed')), 60_000, 'a script', (answer) => heard.push(answer)),
  ).rejects.toMatchObject({ code: 'queue_unavailable', message: 'a script failed' })
  expect(heard).toEqual(['done', null])
})
