/**
 * Attempts that one process records per second through the store and its batcher, on a Postgres with fsync,
 * and the time of a single record. One transaction writes the `attempts` row, the audit row and the result.
 * Then the bench times pages of these rows and an empty feed.
 */
import { closedLoop, interleave, perSecond } from './rounds.ts'
import type { BenchContext, Measured } from './report.ts'
import { sampleAttempt } from './sample-attempt.ts'
import { summarise } from './statistics.ts'

const IN_FLIGHT = [1, 8, 64, 256]
const AGENTS = 50

export async function measureAudit(context: BenchContext): Promise<Record<string, Measured>> {
  const { store } = context.fleet
  const rounds = context.quick ? 3 : 7
  const roundMs = context.quick ? 300 : 4000
  let turn = 0
  const record = async () => {
    const { inserted } = await store.record(sampleAttempt('bench', `agent-${turn++ % AGENTS}`))
    if (!inserted) throw new Error('a new attempt was there already')
  }
  await closedLoop(record, 64, 500)
  const rates = new Map<number, number[]>(IN_FLIGHT.map((n) => [n, []]))
  for (let i = 0; i < rounds; i++)
    for (const n of IN_FLIGHT) rates.get(n)?.push(await closedLoop(record, n, roundMs))
  const times = await interleave(
    [
      { name: 'record', run: record },
      { name: 'page', run: () => store.listAudit({ tenantId: 'bench', limit: 50 }) },
      { name: 'page_all_tenants', run: () => store.listAudit({ tenantId: null, limit: 50 }) },
      { name: 'feed_of_nothing', run: () => store.feed({ tenantId: 'bench', after: 'now', limit: 50 }) },
    ],
    context.quick ? 30 : 200,
  )
  return {
    ...Object.fromEntries(
      [...rates].map(([n, of]): [string, Measured] => [`audit.rows.${n}_in_flight`, perSecond(of)]),
    ),
    ...Object.fromEntries(
      [...times].map(([name, of]): [string, Measured] => [
        `audit.${name}`,
        { unit: 'ms', summary: summarise(of) },
      ]),
    ),
  }
}
