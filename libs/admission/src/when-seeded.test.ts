import { expect, it } from 'vitest'
import type { Reply } from './scripts.ts'
import { whenSeeded } from './when-seeded.ts'

/** A server that was silently replaced: `read` returns the old run ID until `forget` is called. */
function replaced() {
  let known = 'first'
  const calls: string[] = []
  const seeds: string[] = []
  const deps = {
    serverRun: {
      read: async () => known,
      forget: () => {
        known = 'second'
      },
    },
    seed: async (_tenantId: string, { serverRun }: { serverRun: string }) => {
      seeds.push(serverRun)
    },
  }
  return { deps, calls, seeds }
}

const unseeded: Reply = { code: 'unseeded', rest: [1, ''] }

it('reads the run ID again when a script ran on another server, and seeds for that server', async () => {
  const { deps, calls, seeds } = replaced()
  const answer = await whenSeeded('acme', deps, async (run) => {
    calls.push(run)
    if (run === 'first') return { code: 'another_run', rest: [] }
    return seeds.length === 0 ? unseeded : { code: 'charged', rest: [] }
  })
  expect(answer).toEqual({ reply: { code: 'charged', rest: [] }, serverRun: 'second' })
  expect(calls).toEqual(['first', 'second', 'second'])
  expect(seeds).toEqual(['second'])
})

it('gives up if each try meets another server, and counts nothing', async () => {
  const { deps, seeds } = replaced()
  expect(await whenSeeded('acme', deps, async () => ({ code: 'another_run', rest: [] }))).toBeNull()
  expect(seeds).toEqual([])
})
