/**
 * Redis returns to its state of some steps ago, any number of times, while attempts begin, end and are
 * refunded. At rest the counters of the day and of each agent's hour equal the rows.
 *
 *   admit ──► running ──keepCharge, record, release──► over
 *                └─ refund ─► over, unless Redis forgets the refund: then it stays charged
 */
import { newExecutionId } from '@cofferdam/contract'
import { isolatedRedis, scheduleSeed, type TestServer } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Admitted, AttemptKey, ChargedCounts } from '../src/index.ts'
import { LONG_WINDOWS, openAdmission, type Opened } from './open-admission.ts'

const AGENTS = ['a', 'b'] as const
const FREE = { cpuMs: 0, cost: 0 }

/** The audit rows of a tenant: its executions with their agents. */
const rowsOf = new Map<string, Map<string, string>>()
const ofAgent = (all: Iterable<string>, agent: string): number =>
  [...all].filter((one) => one === agent).length

let server: TestServer
let open: Opened
beforeAll(async () => {
  server = await isolatedRedis()
  open = openAdmission(server.url, {
    ...LONG_WINDOWS,
    leaseMs: 3_600_000,
    async countCharged(tenantId, _atMs, unsettled): Promise<ChargedCounts> {
      const rows = rowsOf.get(tenantId) ?? new Map<string, string>()
      return {
        day: { bucket: 0, count: rows.size },
        hours: AGENTS.map((agentId) => ({ agentId, bucket: 1, count: ofAgent(rows.values(), agentId) })),
        ended: unsettled.filter((one) => rows.has(one.executionId)),
      }
    },
  })
})
afterAll(async () => {
  open.close()
  await server.stop()
})

type Copy = { name: string; value: Buffer; ttlMs: number }[]

async function copyOf(tenantId: string): Promise<Copy> {
  const names = await open.redis.keys(`cfd:{${tenantId}}:*`)
  return Promise.all(
    names.map(async (name) => ({
      name,
      value: (await open.redis.dumpBuffer(name)) ?? Buffer.alloc(0),
      ttlMs: Math.max(0, await open.redis.pttl(name)),
    })),
  )
}

async function comeBackAs(copy: Copy, tenantId: string): Promise<void> {
  const names = await open.redis.keys(`cfd:{${tenantId}}:*`)
  if (names.length > 0) await open.redis.del(names)
  for (const { name, value, ttlMs } of copy) await open.redis.restore(name, ttlMs, value)
  await open.redis.set(`cfd:{${tenantId}}:seeded`, 'an earlier life')
}

const stepArb = fc.record({
  do: fc.constantFrom('admit', 'admit', 'admit', 'record', 'record', 'refund', 'copy', 'lose', 'lose'),
  who: fc.nat(30),
})

it('counts attempts that were charged and recorded since, and those that still run', async () => {
  let played = 0
  let lost = 0
  await fc.assert(
    fc.asyncProperty(fc.array(stepArb, { minLength: 5, maxLength: 60 }), async (steps) => {
      const tenantId = `tail-${++played}`
      const rows = new Map<string, string>()
      rowsOf.set(tenantId, rows)
      let running: { key: AttemptKey; admitted: Admitted }[] = []
      let copy: Copy = []
      /** Attempts that were refunded since the copy was made. */
      let refundedSince: AttemptKey[] = []
      const chargedForGood: string[] = []
      const record = async ({ key, admitted }: (typeof running)[number]) => {
        await open.admission.keepCharge(admitted)
        rows.set(key.executionId, key.agentId)
        await open.admission.release(admitted.lease, { settled: true, settlement: FREE })
      }
      for (const { do: what, who } of steps) {
        const picked = what === 'record' || what === 'refund' ? running.splice(who % 7, 1)[0] : undefined
        if (what === 'admit') {
          const agentId = AGENTS[who % 2] ?? 'a'
          const key = { tenantId, agentId, executionId: newExecutionId(), attempt: 1 }
          const admitted = await open.admission.admit(key)
          if (!admitted.admitted) throw new Error(`refused: ${JSON.stringify(admitted)}`)
          running.push({ key, admitted })
        } else if (what === 'copy') {
          copy = await copyOf(tenantId)
          refundedSince = []
        } else if (what === 'lose') {
          lost++
          const present = new Set(copy.map(({ name }) => name))
          for (const key of refundedSince)
            if (present.has(`cfd:{${tenantId}}:charge:${key.executionId}:1`)) chargedForGood.push(key.agentId)
          refundedSince = []
          await comeBackAs(copy, tenantId)
          running = running.map((run) => ({ ...run, admitted: { ...run.admitted, serverRun: 'an earlier' } }))
        } else if (picked !== undefined && what === 'record') await record(picked)
        else if (picked !== undefined && (await open.admission.refund(picked.key, picked.admitted.lease))) {
          await open.admission.release(picked.admitted.lease)
          refundedSince.push(picked.key)
        }
      }
      for (const run of running) await record(run)
      const last = { tenantId, agentId: 'a', executionId: newExecutionId(), attempt: 1 }
      expect((await open.admission.admit(last)).admitted).toBe(true)
      const counted = await Promise.all(
        ['day', 'hr:a', 'hr:b'].map(async (window) =>
          Number(await open.redis.hget(`cfd:{${tenantId}}:${window}`, 'n')),
        ),
      )
      const charged = [...rows.values(), 'a', ...chargedForGood]
      expect(counted).toEqual([charged.length, ofAgent(charged, 'a'), ofAgent(charged, 'b')])
    }),
    { numRuns: 100, seed: scheduleSeed() },
  )
  expect(lost).toBeGreaterThan(100)
}, 240_000)
