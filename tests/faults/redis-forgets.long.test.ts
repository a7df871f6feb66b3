/**
 * Redis comes back without its last writes, because the tail of the append-only file is lost or a replica is
 * promoted. Endings stay the same, nothing is charged twice, and every execution that Redis still knows ends
 * once.
 */
import { readdir, stat, truncate } from 'node:fs/promises'
import path from 'node:path'
import type { Accepted, ExecutionResult } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { auditRows, endingsOf, expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'
import { until } from './servers/redis-process.ts'
import { startWatchedRedis } from './servers/redis-sentinels.ts'

const WORKER = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '4' }
const GENEROUS = {
  policy: { min_isolation: 'none' as const },
  caps: { tenant_daily: 100_000, agent_hourly: 100_000 },
}

async function enqueue(fleet: Fleet, tenantId: string, count: number, sleepMs: number): Promise<Accepted[]> {
  const accepted: Accepted[] = []
  for (let n = 0; n < count; n += 1)
    accepted.push(
      await fleet.client.enqueue(fakeRequest(tenantId, [{ sleep_ms: sleepMs }, { print: `${n}` }])),
    )
  return accepted
}

const rowsNow = async (fleet: Fleet, tenantId: string): Promise<Map<string, string>> =>
  new Map((await auditRows(fleet, tenantId)).map((row) => [row.execution_id, JSON.stringify(row)]))

it('keeps endings and ends the rest once if Redis loses the last second of its log', async () => {
  await using fleet = await startFleet({ durable: true })
  await fleet.createTenant('tail', GENEROUS)
  // Executions end at seven a second first, later at three. So even on a slow machine some still run when
  // Redis loses its log.
  const accepted = [
    // This one runs the whole time: Redis keeps its charge, and there is no row yet.
    ...(await enqueue(fleet, 'tail', 1, 20_000)),
    ...(await enqueue(fleet, 'tail', 12, 400)),
    ...(await enqueue(fleet, 'tail', 28, 1000)),
  ]
  await fleet.startWorker(WORKER)
  const rowsOf = (atLeast: number) =>
    expect
      .poll(async () => (await rowsNow(fleet, 'tail')).size, { timeout: 60_000, interval: 20 })
      .toBeGreaterThanOrEqual(atLeast)
  await rowsOf(4)
  // Everything after this size of the log will be lost, while Postgres keeps its rows.
  const log = await newestLog(path.join(fleet.dataDir, 'redis', 'appendonlydir'))
  const kept = (await stat(log)).size
  const before = await rowsNow(fleet, 'tail')
  await rowsOf(before.size + 8)
  await fleet.changeRedis(async () => truncate(log, kept))
  const recorded = await rowsNow(fleet, 'tail')

  const results = await endingsOf(fleet, accepted, 60_000)
  expect(results.filter((result) => !result.ok)).toEqual([])
  await expectExactBooks(fleet, 'tail', accepted, results)
  const after = await rowsNow(fleet, 'tail')
  for (const [id, at] of recorded) expect(after.get(id), id).toBe(at)
  await expectNothingHeld(fleet)
}, 240_000)

needs('redis-server', 'setpriv').it(
  'executions continue on the replica that the Sentinels promote',
  async () => {
    await using redis = await startWatchedRedis()
    await using fleet = await startFleet({ redisUrl: redis.url })
    await fleet.createTenant('failover', GENEROUS)
    await fleet.startWorker(WORKER)
    const accepted = await enqueue(fleet, 'failover', 40, 60)
    // Only replicated executions count as accepted.
    expect(await redis.master.command('WAIT', 1, 5000)).toBe(1)
    await redis.master.kill()
    await redis.failedOver()
    // The client gets `queue_unavailable` until it has found the new master.
    await until(
      'client',
      async () => (await fleet.client.get(accepted[0]?.execution_id ?? 'exe_')) !== null,
      60_000,
    )

    const results: ExecutionResult[] = await endingsOf(fleet, accepted, 60_000)
    // No execution was refused. Each waited until its worker had looked for an audit row of the attempt.
    const endings = results.map(({ ending }) => ending)
    expect(endings.filter((ending) => !['ok', 'worker_lost'].includes(ending))).toEqual([])
    expect(endings).toContain('ok')
    await expectExactBooks(fleet, 'failover', accepted, results)
    const later = await enqueue(fleet, 'failover', 3, 1)
    expect((await endingsOf(fleet, later, 30_000)).map((result) => result.ending)).toEqual(['ok', 'ok', 'ok'])
    await expectNothingHeld(fleet)
  },
  240_000,
)

async function newestLog(dir: string): Promise<string> {
  const files = (await readdir(dir)).filter((name) => name.endsWith('.incr.aof')).toSorted()
  const last = files.at(-1)
  if (last === undefined) throw new Error(`no append-only file in ${dir}`)
  return path.join(dir, last)
}
