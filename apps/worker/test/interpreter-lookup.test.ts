import { CofferdamError } from '@cofferdam/contract'
import type { CodeInterpreters } from '@cofferdam/store'
import { expect, it } from 'vitest'
import { createInterpreterLookup } from '../src/interpreter-lookup.ts'

const ROW = {
  environment: 'default-public',
  generation: 1,
  provisioned_at: '2026-01-01T00:00:00.000Z',
  sandbox_enabled: true,
} as const

/** Rows as Postgres would return them, with the number of reads. */
function rowsOf(ids: Record<string, string>) {
  const rows = {
    asked: 0,
    away: false,
    forgotten: [] as unknown[],
    find(tenantId: string, environment: string) {
      rows.asked += 1
      if (rows.away) return Promise.reject(new CofferdamError('store_unavailable'))
      return Promise.resolve(ids[`${tenantId} ${environment}`] ?? null)
    },
    list: ({ after }: Parameters<CodeInterpreters['list']>[0]) =>
      Promise.resolve(
        after === undefined
          ? Object.entries(ids).map(([name, id]) => ({ ...ROW, tenant_id: name, interpreter_id: id }))
          : [],
      ),
    forget(...args: unknown[]) {
      rows.forgotten.push(args)
      return Promise.resolve(true)
    },
  }
  return rows
}

it('caches an ID for 30 s, but reads Postgres again while a tenant has no ID', async () => {
  const ids: Record<string, string> = { 'acme default-public': 'a-1' }
  const rows = rowsOf(ids)
  let now = 0
  const lookup = createInterpreterLookup({ rows, actor: 'w', now: () => now })
  for (let n = 0; n < 3; n += 1) expect(await lookup.find('acme', 'default-public')).toBe('a-1')
  expect(rows.asked).toBe(1)
  expect(await lookup.find('acme', 'internal-only')).toBeNull()
  ids['acme internal-only'] = 'a-2'
  expect(await lookup.find('acme', 'internal-only')).toBe('a-2')
  expect(await lookup.find('globex', 'default-public')).toBeNull()
  ids['acme default-public'] = 'a-3'
  now = 30_000
  expect(await lookup.find('acme', 'default-public')).toBe('a-3')
})

it('uses cached IDs while Postgres is away, and throws for tenants without one', async () => {
  const rows = rowsOf({ 'acme default-public': 'a-1' })
  let now = 0
  const lookup = createInterpreterLookup({ rows, actor: 'w', now: () => now })
  await lookup.find('acme', 'default-public')
  now = 3_600_000
  rows.away = true
  expect(await lookup.find('acme', 'default-public')).toBe('a-1')
  await expect(lookup.find('globex', 'default-public')).rejects.toMatchObject({ code: 'store_unavailable' })
})

it('ignores a 404 from an interpreter that was just provisioned', async () => {
  const rows = rowsOf({ acme: 'a-1' })
  const at = Date.parse(ROW.provisioned_at)
  let now = at + 60_000
  const lookup = createInterpreterLookup({ rows, actor: 'w', now: () => now })
  await lookup.forget('acme', 'default-public', 'a-1')
  expect(rows.forgotten).toEqual([])
  now = at + 180_000
  await lookup.forget('acme', 'default-public', 'a-1')
  expect(rows.forgotten).toHaveLength(1)
})

it('forgets an ID that the service does not know', async () => {
  const ids: Record<string, string> = { 'acme default-public': 'a-1' }
  const rows = rowsOf(ids)
  const lookup = createInterpreterLookup({ rows, actor: 'worker-7' })
  await lookup.find('acme', 'default-public')
  delete ids['acme default-public']
  await lookup.forget('acme', 'default-public', 'a-1')
  ids['acme internal-only'] = 'a-2'
  expect(await lookup.all?.()).toEqual(['a-2'])
  expect(rows.forgotten).toEqual([['acme', 'default-public', 'a-1', 'worker-7']])
  expect(await lookup.find('acme', 'default-public')).toBeNull()
})
