/** Four workers restart one after the other under load. No execution is lost or runs twice. */
import type { Accepted } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'
import { endingsOf, expectExactBooks, fakeRequest } from './accounts.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
  await fleet.createTenant('rolled', {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 100_000, agent_hourly: 100_000, concurrency: 64 },
  })
})
afterAll(async () => fleet[Symbol.asyncDispose]())

const WORKER = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '4' }
/** Long enough that a restart finds some of them running, and short compared to the drain time of 25 s. */
const RUN_MS = 400

/** How often an execution was handed to a sandbox, according to its live events. */
async function startsOf(executionId: Accepted['execution_id']): Promise<number> {
  let starts = 0
  for await (const { event } of fleet.client.stream(executionId)) if (event.type === 'started') starts += 1
  return starts
}

it('a rolling restart of all workers under load loses no execution and runs none twice', async () => {
  const workers: FleetWorker[] = []
  for (let i = 0; i < 4; i++) workers.push(await fleet.startWorker(WORKER))
  const accepted: Accepted[] = []
  const producing = new AbortController()
  const producer = (async () => {
    // Enough for sixteen slots and a backlog, so that each restart happens under full load.
    while (!producing.signal.aborted) {
      const batch = Array.from({ length: 8 }, (_, i) => accepted.length + i)
      const requests = batch.map((n) =>
        fakeRequest('rolled', [{ sleep_ms: RUN_MS }, { print: `${n}` }], `agent-${n % 5}`),
      )
      accepted.push(...(await Promise.all(requests.map((request) => fleet.client.enqueue(request)))))
      const last = accepted.at(-1)
      if (last !== undefined && accepted.length > 60)
        await fleet.client.wait(accepted[accepted.length - 48]?.execution_id ?? last.execution_id, {
          timeoutMs: 60_000,
        })
    }
  })()

  const exits: (number | null)[] = []
  for (let i = 0; i < 4; i++) {
    const before = accepted.length
    await expect.poll(() => accepted.length, { timeout: 60_000 }).toBeGreaterThan(before + 24)
    exits.push((await workers.shift()?.stop()) ?? null)
    workers.push(await fleet.startWorker(WORKER))
  }
  producing.abort()
  await producer
  expect(exits).toEqual([0, 0, 0, 0])

  const results = await endingsOf(fleet, accepted, 120_000)
  expect(accepted.length).toBeGreaterThan(100)
  // All ended normally, because a drain lets programs finish and requeues executions that have not begun.
  expect(results.filter(({ ending, attempt }) => ending !== 'ok' || attempt !== 1)).toEqual([])
  expect(results.map(({ stdout }) => stdout)).toEqual(accepted.map((_, n) => `${n}\n`))
  await expectExactBooks(fleet, 'rolled', accepted, results)
  const starts = await Promise.all(accepted.map(({ execution_id }) => startsOf(execution_id)))
  expect(starts.filter((count) => count !== 1)).toEqual([])
  // The lease is released after the sandbox is destroyed, for which no caller waits.
  const running = async () => (await fleet.admission.usage('rolled')).concurrency.running
  await expect.poll(running, { timeout: 20_000 }).toBe(0)
}, 300_000)
