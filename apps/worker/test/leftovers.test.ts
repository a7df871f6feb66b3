import type { SandboxId, SandboxRef } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { createLeftovers, type Leftovers } from '../src/leftovers.ts'

const refOf = (id: string): SandboxRef => ({ backend: 'vendor', id: id as SandboxId, handle: {} })

/** A vendor whose first `failures` kills fail. */
function vendor(failures: number) {
  const killed: string[] = []
  const seen = { killed, gone: [] as string[], errors: 0 }
  const leftovers = createLeftovers({
    backend: (name) =>
      name === 'vendor'
        ? {
            kill: async ({ id }) => {
              killed.push(id)
              if (killed.length <= failures) throw new Error('away')
              return true
            },
          }
        : undefined,
    onGone: ({ id }) => void seen.gone.push(id),
    onError: () => void (seen.errors += 1),
    pauseMs: 1,
  })
  return { leftovers, seen }
}

const untilEmpty = (leftovers: Leftovers) => expect.poll(() => leftovers.size, { timeout: 20_000 }).toBe(0)

test('kills a sandbox until its backend confirms it', async () => {
  const { leftovers, seen } = vendor(3)
  const gone = leftovers.add(refOf('a'))
  await untilEmpty(leftovers)
  expect(await gone).toBe(true)
  expect(seen).toEqual({ killed: ['a', 'a', 'a', 'a'], gone: ['a'], errors: 3 })
  await leftovers[Symbol.asyncDispose]()
})

test('does not kill a sandbox that ends late but cleanly, because it may have saved a session', async () => {
  const { leftovers, seen } = vendor(0)
  const ending = Promise.withResolvers<void>()
  void leftovers.add(refOf('a'), ending.promise)
  expect(leftovers.size).toBe(1)
  ending.resolve()
  await untilEmpty(leftovers)
  expect(seen).toEqual({ killed: [], gone: ['a'], errors: 0 })
  await leftovers[Symbol.asyncDispose]()
})

test('kills a sandbox that failed to end', async () => {
  const { leftovers, seen } = vendor(0)
  void leftovers.add(refOf('a'), Promise.reject(new Error('the vendor was away')))
  await untilEmpty(leftovers)
  expect(seen.gone).toEqual(['a'])
  await leftovers[Symbol.asyncDispose]()
})

test('kills a sandbox whose end hangs when the worker closes', async () => {
  const { leftovers, seen } = vendor(0)
  void leftovers.add(refOf('a'), new Promise<void>(() => {}))
  await leftovers[Symbol.asyncDispose]()
  expect([seen.killed, seen.gone]).toEqual([['a'], ['a']])
})

test('tries one last kill when the worker closes', async () => {
  const { leftovers, seen } = vendor(Number.POSITIVE_INFINITY)
  const gone = leftovers.add(refOf('a'))
  await expect.poll(() => seen.errors, { timeout: 20_000 }).toBeGreaterThan(0)
  await leftovers[Symbol.asyncDispose]()
  expect([leftovers.size, await gone]).toEqual([0, false])
  const tries = seen.errors
  expect(await leftovers.add(refOf('b'))).toBe(false)
  expect(leftovers.size).toBe(0)
  expect(seen.errors).toBe(tries + 1)
  expect(seen.killed).not.toContain('b')
})
