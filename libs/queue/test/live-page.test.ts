/** Pages of live executions with a filter: each match once, at a bounded cost. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { LiveFilter } from '../src/index.ts'
import { requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterAll(() => bench[Symbol.asyncDispose]())

/** One page looks at LOOKED_AT executions. Only the next page reaches MORE others. */
const LOOKED_AT = 5000
const MORE = 40

it('finds a match behind thousands of others in a later page, and each match once', async () => {
  const producer = bench.producer()
  await producer.setTenantLimits('acme', { weight: 1, concurrency: null, max_queued: 2 * LOOKED_AT })
  const put = async (agent: string) =>
    (await producer.put(requestOf({ agent_id: agent, delay_ms: 3_600_000 }))).execution_id
  const rare = [await put('rare'), await put('rare')]
  // All calls of one turn of the event loop reach Redis together, in their order.
  for (let left = LOOKED_AT + MORE; left > 0; left -= MORE)
    await Promise.all(Array.from({ length: MORE }, () => put('common')))

  const pagesOf = async (filter: LiveFilter, limit: number): Promise<string[][]> => {
    const pages: string[][] = []
    for (let before: string | undefined | null; before !== null;) {
      const page = await producer.livePage('acme', { limit, filter, ...(before && { before }) })
      pages.push(page.states.map((state) => state.execution_id))
      before = page.next
    }
    return pages
  }
  expect(await pagesOf({ agent: 'rare' }, 50)).toEqual([[], rare.toReversed()])
  expect(await pagesOf({ agent: 'rare' }, 1)).toEqual([[], [rare[1]], [rare[0]], []])
  expect(await pagesOf({ agent: 'nobody' }, 50)).toEqual([[], []])
  const common = await pagesOf({ agent: 'common' }, 1000)
  expect(common.map((page) => page.length)).toEqual([1000, 1000, 1000, 1000, 1000, MORE])
  expect(new Set(common.flat()).size).toBe(LOOKED_AT + MORE)
  // Nothing that was enqueued earlier can match, so the list ends there.
  expect(await pagesOf({ from: Date.now() + 3_600_000 }, 50)).toEqual([[]])
})
