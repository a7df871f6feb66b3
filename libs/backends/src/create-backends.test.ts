import { expect, test } from 'vitest'
import { backendsConfigSchema } from './config.ts'
import { createBackends } from './create-backends.ts'
import { BACKENDS } from './registry.ts'

test('creates the configured backends in the order of the configuration, under their own names', async () => {
  const backends = await createBackends({ hostile: {}, fake: {} })
  expect([...backends.keys()]).toEqual(['hostile', 'fake'])
  expect([...backends.values()].map((backend) => backend.name)).toEqual(['hostile', 'fake'])
  for (const backend of backends.values()) await backend[Symbol.asyncDispose]()
})

test('creates no backend that the configuration does not name, in particular no double', async () => {
  expect([...(await createBackends({})).keys()]).toEqual([])
})

test('refuses an unknown name, and lists the known ones', async () => {
  await expect(createBackends({ dokcer: {} } as never)).rejects.toMatchObject({
    code: 'backend_unknown',
    message: expect.stringContaining('docker'),
  })
})

test('every backend accepts an empty section, and none accepts an unknown key', () => {
  for (const name of Object.keys(BACKENDS)) {
    expect(backendsConfigSchema.safeParse({ [name]: {} }).success, name).toBe(true)
    expect(backendsConfigSchema.safeParse({ [name]: { nonsense: 1 } }).success, name).toBe(false)
  }
  expect(backendsConfigSchema.safeParse({ nonsense: {} }).success).toBe(false)
})
