import { expect, test } from 'vitest'
import { withProvisionedPool } from './provisioned-pool.ts'

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
const configs = { get: async () => ({ settings, version: 1, fleetOwner: 'f', work: null }) }
const never = (error: unknown): never => {
  throw error
}

test('an enabled backend that names no pool takes the provisioned one', async () => {
  expect(await withProvisionedPool({ process: {}, azure: { enabled: true } }, configs, never)).toEqual({
    sections: { process: {}, azure: { enabled: true, interpreter_endpoint: 'https://pool.example' } },
    endpoint: 'https://pool.example',
  })
})

test.each([
  { process: {} },
  { azure: {} },
  { azure: { enabled: true, interpreter_endpoint: 'https://own.example' } },
  { azure: { enabled: true, container_endpoint: 'https://own.example' } },
])('a backend that is absent, off, or has a pool of its own stays as it is: %j', async (backends) => {
  const unread = { get: () => Promise.reject(new Error('it was asked')) }
  expect(await withProvisionedPool(backends, unread, never)).toEqual({ sections: backends, endpoint: null })
})

test('a store that is away leaves the backend without a pool, and is told of', async () => {
  const told: unknown[] = []
  const away = { get: () => Promise.reject(new Error('away')) }
  const backends = { azure: { enabled: true } }
  expect(await withProvisionedPool(backends, away, (error) => told.push(error))).toEqual({
    sections: backends,
    endpoint: null,
  })
  expect(told).toHaveLength(1)
})
