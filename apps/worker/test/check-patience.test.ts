/** Executions that cannot be judged. The parts around them are plain objects that remember what they were told; Redis is real. */
import { executionRequestSchema, newExecutionId, type AttemptRecord } from '@cofferdam/contract'
import { testRedis } from '@cofferdam/embedded/testing'
import { connectRedis, type Taken } from '@cofferdam/queue'
import { createLogger } from '@cofferdam/telemetry'
import { expect, it } from 'vitest'
import { createCheckPatience } from '../src/check-patience.ts'
import { processExecution } from '../src/process-execution.ts'
import { refuseByAdmission } from '../src/refuse.ts'
import type { WorkerDeps } from '../src/worker-deps.ts'

it.each([
  {
    what: 'whose policy cannot be read',
    judge: processExecution,
    ending: 'provisioning',
    reason: 'policy_unavailable',
  },
  {
    what: 'whose caps cannot be counted',
    judge: (taken: Taken, deps: WorkerDeps) =>
      refuseByAdmission(
        taken,
        { admitted: false, dimension: 'unknown', resetsAtMs: 0, killSwitch: false, caps: null },
        { retentionDays: 30 },
        deps,
      ),
    ending: 'cap_exceeded',
    reason: 'unknown',
  },
])(
  'puts an execution off $what, uncharged, for a minute by whichever worker, and refuses it then',
  async (c) => {
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
      defer: async (untilMs: number, why: string) => void putOff.push([untilMs - nowMs, why]),
      settle: async (record: AttemptRecord) => void ended.push(record),
    } as unknown as Taken
    const worker = (): WorkerDeps =>
      ({
        policies: { read: () => Promise.reject(new Error('Postgres is away')) },
        patience: createCheckPatience(redis),
        store: { record: async () => ({ inserted: true }) },
        metrics: { ended: () => undefined },
        logger: createLogger({ service: 'test', level: 'silent' }),
        defaultRetentionDays: 30,
      }) as unknown as WorkerDeps

    await c.judge(taken, worker())
    nowMs += 59_999
    await c.judge(taken, worker())
    expect(ended).toEqual([])
    expect(putOff.map(([ms, why]) => [ms >= 1000 && ms <= 2000, why.includes('cannot be made now')])).toEqual(
      [
        [true, true],
        [true, true],
      ],
    )
    nowMs += 1
    await c.judge(taken, worker())
    expect(putOff).toHaveLength(2)
    expect(ended.map(({ result, audit }) => [result.ending, result.reason, audit.quota_charged])).toEqual([
      [c.ending, c.reason, false],
    ])
    expect(await redis.pttl(`cfd:{unjudged}:unjudged:${taken.executionId}`)).toBeGreaterThan(0)
  },
)
