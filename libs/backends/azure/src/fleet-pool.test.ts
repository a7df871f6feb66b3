import type { Backend, Sandbox, SandboxRef, SandboxSpec } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { SILENT } from '@cofferdam/sandbox/backend'
import { createFleetPoolBackend } from './fleet-pool.ts'

const REF = { backend: 'azure', id: 'sbx', handle: {} } as unknown as SandboxRef
const signal = new AbortController().signal

/** Pools whose sandboxes have the pool's endpoint as ID. Pools in `away` do not answer. */
function scene() {
  const there = new Map<string, number>()
  const away = new Set<string>()
  const fleet = { endpoint: '', allowed: '', configured: async () => fleet.endpoint }
  const at = (endpoint = ''): Backend =>
    ({
      name: 'azure',
      isolation: 'microvm',
      capabilities: {},
      probe: async () =>
        endpoint === '' ? { ok: false, why: 'unset', fix: '' } : { ok: true, features: [endpoint] },
      async open() {
        if (endpoint === '') throw new Error('unset')
        there.set(endpoint, (there.get(endpoint) ?? 0) + 1)
        return { id: endpoint } as unknown as Sandbox
      },
      async kill() {
        if (away.has(endpoint)) throw new Error('away')
        return there.delete(endpoint)
      },
      sweep: async () => ({ destroyed: there.get(endpoint) ?? 0 }),
      owners: async () => [...there.keys()].filter((key) => key === endpoint),
      endSession: async () => there.delete(endpoint),
      [Symbol.asyncDispose]: async () => {},
    }) as unknown as Backend
  const backend = createFleetPoolBackend(at, fleet, SILENT)
  const open = async (endpoint: string): Promise<string> => {
    fleet.endpoint = fleet.allowed = endpoint
    return (await backend.open({} as SandboxSpec, signal)).id
  }
  return { fleet, backend, open, there, away }
}

test('opens sandboxes in the currently configured pool, and reports if there is none', async () => {
  const { fleet, backend, open } = scene()
  expect(await backend.probe(signal)).toMatchObject({ ok: false, why: 'unset' })
  await expect(open('')).rejects.toThrow('unset')
  expect(await open('a')).toBe('a')
  expect(await open('b')).toBe('b')
  fleet.endpoint = 'c'
  expect(await backend.probe(signal)).toMatchObject({ features: ['c'] })
  // Pool c is configured, but no execution is allowed to use it yet.
  expect((await backend.open({} as SandboxSpec, signal)).id).toBe('b')
})

test('finds and ends sandboxes in a pool that was configured before', async () => {
  const { backend, open, there } = scene()
  await open('a')
  await open('b')
  expect((await backend.owners()).toSorted()).toEqual(['a', 'b'])
  expect(await backend.sweep('w' as never)).toEqual({ destroyed: 2 })
  there.delete('b')
  expect(await backend.kill(REF)).toBe(true)
  expect(await backend.kill(REF)).toBe(false)
})

test('ignores errors of a removed pool, and reports those of the configured one', async () => {
  const { backend, open, away } = scene()
  await open('a')
  await open('b')
  away.add('a')
  expect(await backend.kill(REF)).toBe(true)
  away.add('b')
  await expect(backend.kill(REF)).rejects.toThrow('away')
})

test('cannot run while the configured pool is unknown', async () => {
  const { fleet, backend } = scene()
  fleet.configured = () => Promise.reject(new Error('no Postgres'))
  expect(await backend.probe(signal)).toMatchObject({
    ok: false,
    why: expect.stringContaining('cannot be read') as string,
  })
})
