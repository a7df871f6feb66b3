/**
 * The chaos run at full size: 100,000 executions over four workers, one of which is killed every second while
 * caps change. Every execution must end, and rows and counters must match. The test suite runs 2,000
 * (tests/faults/chaos.test.ts).
 */
import { runChaos } from '../tests/faults/chaos.ts'
import type { BenchContext, Measured } from './report.ts'

export async function measureChaos(context: BenchContext): Promise<Record<string, Measured>> {
  const executions = context.executions ?? (context.quick ? 5000 : 100_000)
  const account = await runChaos(context.fleet, {
    executions,
    workers: 4,
    killEveryMs: 1000,
    patienceMs: 300_000,
    note: (line) => context.note(line),
  })
  context.note(JSON.stringify(account))
  const count = (value: number): Measured => ({ unit: 'count', value })
  return {
    'chaos.accepted': count(account.accepted),
    'chaos.killed': count(account.killed),
    'chaos.without_ending': count(account.accepted - account.ended),
    'chaos.rows_missing': count(account.attempts - account.rows),
    'chaos.contradictions': count(account.contradictions),
    'chaos.charge_difference': count(Math.abs(account.chargedByCounter - account.chargedByRows)),
    'chaos.worker_lost': count(account.endings.worker_lost ?? 0),
  }
}
