/** Executions whose policy or caps cannot be checked because a store does not answer. Redis is real. */
import { executionRequestSchema, newExecutionId, type AttemptRecord } from '@cofferdam/contract'
import { testRedis } from '@cofferdam/embedded/testing'
import { connectRedis, type Taken } from '@cofferdam/queue'
import { defaultPolicy } from '@cofferdam/store'
import { createLogger } from '@cofferdam/telemetry'
import { expect, it } from 'vitest'
import { processExecution } from '../src/process-execution.ts'
import { createCheckGrace } from '../src/requeue.ts'
import type { WorkerDeps } from '../src/worker-deps.ts'

const unavailable = () => Promise.reject(new Error('Postgres is away'))
const allowed = async () => ({ tenant: defaultPolicy('unjudged'), template: null })
const unknown = { admitted: false, dimension: 'unknown', resetsAtMs: 0, killSwitch: false, caps: null }

it.each([
  { what: 'policy cannot be read', read: unavailable, ending: 'provisioning', reason: 'policy_unavailable' },
  { what: 'caps cannot be counted', read: allowed, ending: 'cap_exceeded', reason: 'unknown' },
])(
  'requeues an execution whose $what for a minute, on any worker and uncharged, then refuses it',
  async ({ read, ending, reason }) => {
    await using owned = new AsyncDisposableStack()
    const server = await testRedis()
    owned.defer(() => server.stop())
    const redis = owned.adopt(connectRedis(server.url, 'worker'), (connection) => connection.disconnect())

    let nowMs = 1_000_000
    const putOff: [number, string][] = []
    const ended: AttemptRecord[] = []
    const taken = {
      executionId: newExecutionId(),
      request: executionRequestSchema.parse({
        tenant_id: 'unjudged',
        agent_id: 'a',
        program: { type: 'script', language: 'python', source: '' },
      }),
      attempt: 1,
      enqueuedAtMs: 1000,
      takenAtMs: 2000,
      interrupted: null,
      mayHaveRun: false,
      traceparent: null,
      lane: 'interactive',
      nowMs: () => nowMs,
      signal: new AbortController().signal,
      route: async () => false,
      defer: async (untilMs: number, why: string) => void putOff.push([untilMs - nowMs, why]),
      settle: async (record: AttemptRecord) => void ended.push(record),
    } as unknown as Taken
    const worker = (): WorkerDeps =>
      ({
        policies: { read },
        admission: { admit: async () => unknown },
        offers: () => [],
        prices: {},
        mayRetryCheck: createCheckGrace(redis),
        store: { record: async () => ({ inserted: true }) },
        metrics: { ended: () => undefined },
        logger: createLogger({ service: 'test', level: 'silent' }),
        defaultRetentionDays: 30,
      }) as unknown as WorkerDeps

    await processExecution(taken, worker())
    nowMs += 59_999
    await processExecution(taken, worker())
    expect(ended).toEqual([])
    expect(putOff.map(([ms, why]) => [ms >= 1000 && ms <= 2000, why.includes('cannot be made now')])).toEqual(
      [
        [true, true],
        [true, true],
      ],
    )
    nowMs += 1
    await processExecution(taken, worker())
    expect(putOff).toHaveLength(2)
    expect(ended.map(({ result, audit }) => [result.ending, result.reason, audit.quota_charged])).toEqual([
      [ending, reason, false],
    ])
    expect(await redis.pttl(`cfd:{unjudged}:unjudged:${taken.executionId}`)).toBeGreaterThan(0)
  },
)
