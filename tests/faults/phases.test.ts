/**
 * A worker dies or stalls at each point of the main path. An execution that had not begun runs elsewhere, one
 * that had begun is not run again, and a recorded result is published. Each has one charge, one row and one
 * ending.
 */
import type { Accepted, ExecutionResult } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { endingsOf, expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'
import { startStoppingWorker, type StoppingWorker } from './start-stopping-worker.ts'
import { POINTS, tenantOf, type Point } from './stopping-worker.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
})
afterAll(async () => fleet[Symbol.asyncDispose]())

const WORKER = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '16' }
/** One slot per point, so that later executions go to another worker. */
const STOPPING = { ...WORKER, COFFERDAM_SLOTS: String(POINTS.length) }
const GENEROUS = {
  policy: { min_isolation: 'none' as const },
  caps: { tenant_daily: 100_000, agent_hourly: 100_000 },
}

/** The ending that the caller sees when the worker dies at the point. */
const EXPECTED: Record<Point, 'ok' | 'worker_lost'> = {
  'after take': 'ok',
  'after policy': 'ok',
  'after admit': 'ok',
  'after open': 'ok',
  'begin unanswered': 'worker_lost',
  'after begin': 'worker_lost',
  running: 'worker_lost',
  'after end': 'worker_lost',
  'after audit row': 'ok',
  'after result': 'ok',
  'before ack': 'ok',
}

/**
 * Points at which nothing shows that the program was handed over to its sandbox, so the attempt is not
 * charged.
 */
const UNCHARGED: readonly Point[] = ['begin unanswered', 'after begin']

/** A program that prints. At point `running` it also keeps running until its worker dies. */
const programOf = (point: Point): object[] =>
  point === 'running' ? [{ print: 'out' }, { sleep_ms: 600_000 }] : [{ print: 'out' }]

/** Deadlines so long that no program meets one while the other workers start. */
const LONG = { soft_timeout_ms: 500_000, hard_timeout_ms: 510_000 }

/** Starts one execution for each point, all in one worker. */
async function oneAtEachPoint(prefix: string): Promise<{ stopping: StoppingWorker; accepted: Accepted[] }> {
  const stopping = await startStoppingWorker(fleet, STOPPING, prefix)
  const accepted: Accepted[] = []
  for (const point of POINTS) {
    await fleet.createTenant(tenantOf(prefix, point), GENEROUS)
    const request = fakeRequest(tenantOf(prefix, point), programOf(point))
    accepted.push(await fleet.client.enqueue({ ...request, limits: LONG }))
  }
  await stopping.stoppedAt(POINTS)
  return { stopping, accepted }
}

const endingAt = (results: readonly ExecutionResult[]): object =>
  Object.fromEntries(POINTS.map((point, n) => [point, results[n]?.ending]))

async function expectBooksAtEachPoint(
  prefix: string,
  accepted: readonly Accepted[],
  results: readonly ExecutionResult[],
): Promise<void> {
  for (const [n, point] of POINTS.entries()) {
    const [execution, result] = [accepted[n], results[n]]
    if (execution === undefined || result === undefined) throw new Error('unreachable')
    const [row] = await expectExactBooks(fleet, tenantOf(prefix, point), [execution], [result])
    expect([row?.attempt, row?.quota_charged], point).toEqual([1, !UNCHARGED.includes(point)])
  }
}

it('each execution ends once, at whatever point its worker is killed or suspended', async () => {
  const killed = await oneAtEachPoint('dies')
  const asleep = await oneAtEachPoint('sleeps')
  const heir = await fleet.startWorker(WORKER)
  asleep.stopping.worker.process.kill('SIGSTOP')
  await killed.stopping.worker.kill()
  const killedAtMs = performance.now()
  const results = await endingsOf(fleet, killed.accepted, 60_000)
  const tookMs = Math.round(performance.now() - killedAtMs)
  console.info(`the last one ended ${tookMs} ms after the death of its worker`)
  expect(endingAt(results)).toEqual(EXPECTED)
  await expectBooksAtEachPoint('dies', killed.accepted, results)
  // Lost executions end within 15 s at default settings (LOCK_MS). A loaded machine gets 5 s more. A slow one
  // also gets five times what the same number of undisturbed executions takes.
  await fleet.createTenant('alone', GENEROUS)
  const aloneAtMs = performance.now()
  const alone = await Promise.all(
    POINTS.map(() => fleet.client.enqueue(fakeRequest('alone', [{ print: 'out' }]))),
  )
  await endingsOf(fleet, alone, 60_000)
  expect(tookMs).toBeLessThan(20_000 + 5 * (performance.now() - aloneAtMs))

  // The worker was suspended. Others have ended its executions, and it changes nothing when it continues.
  const slept = await endingsOf(fleet, asleep.accepted, 60_000)
  expect(endingAt(slept)).toEqual(EXPECTED)
  await expectBooksAtEachPoint('sleeps', asleep.accepted, slept)
  asleep.stopping.worker.process.kill('SIGCONT')
  await asleep.stopping.goOn(POINTS)
  expect(await endingsOf(fleet, asleep.accepted, 10_000)).toEqual(slept)
  await expectBooksAtEachPoint('sleeps', asleep.accepted, slept)
  await expectNothingHeld(fleet)
  await heir.stop()
}, 240_000)
