import type { AuditRow } from '@cofferdam/client'
import { expect, it } from 'vitest'
import { mattersOf } from './attention.ts'
import type { Queue } from '../queue/queue.ts'

const lane = { queued: 0, delayed: 0, running: 0, oldest_age_ms: null, window: 4 }
const worker = { worker_id: 'wrk_1', slots: 4, running: 0, last_seen_ms: 500 }
const calm: Queue = {
  lanes: { interactive: lane, routine: lane },
  workers: [worker],
  outbox: 0,
  callbacks: { due: 0, retrying: 0 },
}
const texts = (...from: Parameters<typeof mattersOf>): string[] => mattersOf(...from).map(({ text }) => text)
const report = (ok: boolean) => ({
  worker: 'wrk_1',
  report: { name: 'docker', isolation: 'container' as const, probe: { ok } },
})

it('is silent about a fleet that works', () => {
  const backends = [
    { name: 'docker', isolation: 'container' as const, available: true, workers: [report(true)] },
  ]
  expect(texts(calm, backends, [])).toEqual([])
})

it('names what is wrong, the worst first', () => {
  const queue: Queue = {
    lanes: { interactive: { ...lane, oldest_age_ms: 61_000 }, routine: lane },
    workers: [{ ...worker, last_seen_ms: 16_000 }],
    outbox: 1,
    callbacks: { due: 3, retrying: 2 },
  }
  const backends = [
    { name: 'docker', isolation: 'container' as const, available: false, workers: [report(false)] },
    { name: 'process', isolation: 'jail' as const, available: true, workers: [report(true), report(false)] },
  ]
  const rows = ['worker_lost', 'worker_lost', 'provisioning'].map((ending) => ({ ending }) as AuditRow)
  expect(texts(queue, backends, rows)).toEqual([
    'wrk_1 was last seen 16 s ago.',
    'No worker can use the backend docker.',
    '2 executions ended worker_lost within the last hour.',
    '1 execution ended provisioning within the last hour.',
    'The oldest in lane interactive has waited for 1 m 01 s.',
    '1 attempt record not in the store yet.',
    '2 callbacks failed and will be sent again.',
    '1 worker cannot use the backend process.',
  ])
})

it('says that nothing can run without a worker', () => {
  expect(texts({ ...calm, workers: [] }, [], [])).toEqual(['No worker has a heartbeat: nothing can run.'])
})
