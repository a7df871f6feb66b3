/** Any sequence of calls gives the same results as a few lines of plain bookkeeping. */
import { DEFAULT_TENANT_CAPS, newExecutionId } from '@cofferdam/contract'
import { isolatedRedis, scheduleSeed, type TestServer } from '@cofferdam/embedded/testing'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AttemptKey, Lease } from '../src/index.ts'
import { ledger, LONG_WINDOWS, openAdmission, type Opened } from './open-admission.ts'

let server: TestServer
let open: Opened
beforeAll(async () => {
  server = await isolatedRedis()
  open = openAdmission(server.url, { ...LONG_WINDOWS, leaseMs: 3_600_000 })
})
afterAll(async () => {
  open.close()
  await server.stop()
})

const AGENTS = ['a', 'b'] as const
type Step =
  | { do: 'admit' | 'refund' | 'release' | 'releaseStale'; who: number }
  | { do: 'caps'; daily: number; hourly: number; b: number | null; concurrency: number }

const who = fc.nat(7)
const stepArb: fc.Arbitrary<Step> = fc.oneof(
  { weight: 10, arbitrary: fc.record({ do: fc.constant('admit' as const), who }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('refund' as const), who }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('release' as const), who }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('releaseStale' as const), who }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('caps' as const),
      daily: fc.nat(5),
      hourly: fc.nat(4),
      b: fc.option(fc.nat(3)),
      concurrency: fc.integer({ min: 1, max: 4 }),
    }),
  },
)

/** The bookkeeping: which attempts are charged, and which hold a lease. */
class Book {
  caps = { daily: 4, hourly: 3, b: null as number | null, concurrency: 3 }
  readonly charged = new Set<number>()
  readonly leased = new Set<number>()
  readonly agentOf = (who: number): (typeof AGENTS)[number] => (who % 2 === 0 ? 'a' : 'b')
  readonly usedBy = (agent: string): number =>
    [...this.charged].filter((w) => this.agentOf(w) === agent).length

  admit(who: number): string {
    const agent = this.agentOf(who)
    const hourly = agent === 'b' && this.caps.b !== null ? this.caps.b : this.caps.hourly
    const verdict = this.judge(who, hourly, agent)
    if (verdict === 'now' || verdict === 'before') {
      this.charged.add(who)
      this.leased.add(who)
    } else if (!this.leased.has(who)) this.charged.delete(who)
    return verdict
  }

  private judge(who: number, hourly: number, agent: string): string {
    if (this.caps.daily === 0) return 'kill tenant_daily'
    if (hourly === 0) return 'kill agent_hourly'
    const before = this.charged.has(who)
    if (!before && this.charged.size >= this.caps.daily) return 'tenant_daily'
    if (!before && this.usedBy(agent) >= hourly) return 'agent_hourly'
    if (!this.leased.has(who) && this.leased.size >= this.caps.concurrency) return 'tenant_concurrency'
    return before ? 'before' : 'now'
  }
}

describe('admission', () => {
  it('agrees with plain bookkeeping for any sequence of calls', async () => {
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.array(stepArb, { minLength: 1, maxLength: 40 }), async (steps) => {
        const tenantId = `model-${++run}`
        const book = new Book()
        const keys: AttemptKey[] = Array.from({ length: 8 }, (_, i) => ({
          tenantId,
          agentId: book.agentOf(i),
          executionId: newExecutionId(),
          attempt: 1,
        }))
        const leases = new Map<number, Lease[]>()
        await setCaps(tenantId, book.caps)
        for (const step of steps) {
          if (step.do === 'caps') {
            book.caps = step
            await setCaps(tenantId, step)
            continue
          }
          const key = keys[step.who]!
          const mine = leases.get(step.who) ?? []
          switch (step.do) {
            case 'admit': {
              const verdict = await open.admission.admit(key)
              if (verdict.admitted) leases.set(step.who, [...mine, verdict.lease])
              const told = verdict.admitted
                ? verdict.charged
                : `${verdict.killSwitch ? 'kill ' : ''}${verdict.dimension}`
              expect(told).toBe(book.admit(step.who))
              break
            }
            case 'refund':
              expect(await open.admission.refund(key)).toBe(book.charged.delete(step.who))
              break
            case 'release':
              if (mine.length > 0) await open.admission.release(mine.at(-1)!)
              book.leased.delete(step.who)
              break
            case 'releaseStale':
              // Release the lease of an old owner only while the attempt is charged, because only the charge
              // distinguishes the old owner from the new one.
              if (mine.length > 1 && book.charged.has(step.who)) await open.admission.release(mine[0]!)
              break
          }
          const usage = await open.admission.usage(tenantId, 'a')
          expect([
            usage.tenant_daily.used,
            usage.agent_hourly?.used,
            usage.concurrency.running,
            (await ledger(open.redis, tenantId)).length,
          ]).toEqual([book.charged.size, book.usedBy('a'), book.leased.size, book.charged.size])
        }
      }),
      { numRuns: 60, seed: scheduleSeed() },
    )
  })
})

async function setCaps(tenantId: string, caps: Book['caps']): Promise<void> {
  await open.admission.setCaps(tenantId, {
    ...DEFAULT_TENANT_CAPS,
    tenant_daily: caps.daily,
    agent_hourly: caps.hourly,
    agents: caps.b === null ? {} : { b: caps.b },
    concurrency: caps.concurrency,
  })
}
