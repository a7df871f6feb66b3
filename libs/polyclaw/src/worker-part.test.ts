import { expect, test } from 'vitest'
import { provisionedPool } from './worker-part.ts'

const settings = {
  enabled: false,
  sync_data: true,
  session_pool_endpoint: 'https://pool.example',
  whitelist: [],
  resource_group: '',
  location: '',
  pool_name: '',
  pool_id: '',
}

test('sends an enabled backend without its own pool to the pool of the settings', async () => {
  const now = { ...settings }
  const pool = provisionedPool(
    { process: {}, azure: { enabled: true } },
    { get: async () => ({ settings: now, version: 1, fleetOwner: 'f', work: null }) },
  )
  expect(await pool?.configured()).toBe('https://pool.example')
  now.session_pool_endpoint = 'https://other.example'
  expect(await pool?.configured()).toBe('https://other.example')
  expect(pool?.allowed).toBe('')
  pool?.allow('https://other.example')
  expect(pool?.allowed).toBe('https://other.example')
})

test.each([
  { process: {} },
  { azure: {} },
  { azure: { enabled: true, interpreter_endpoint: 'https://own.example' } },
  { azure: { enabled: true, container_endpoint: 'https://own.example' } },
])('provides no pool to a backend that is absent, disabled, or has its own: %j', (backends) => {
  const unread = { get: () => Promise.reject(new Error('it was asked')) }
  expect(provisionedPool(backends, unread)).toBeNull()
})
