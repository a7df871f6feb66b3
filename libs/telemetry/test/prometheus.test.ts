import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
} from '@cofferdam/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { startTelemetry, type Telemetry } from '../src/index.ts'

let telemetry: Telemetry
afterEach(() => telemetry.shutdown())
const start = async () => {
  telemetry = await startTelemetry({
    service: 'cofferdam-test',
    version: '1.0.0',
    instance: 'one',
    redact: (text) => text.replaceAll('hunter2-hunter2', '[redacted]'),
  })
  return telemetry
}
const scrape = async () => (await telemetry.prometheus()).body.split('\n')

function refusedAttempt() {
  return composeAttempt({
    executionId: newExecutionId(),
    attempt: 1,
    request: executionRequestSchema.parse({
      tenant_id: 't',
      agent_id: 'a',
      program: { type: 'script', language: 'python', source: '1' },
    }),
    outcome: { ...outcomeWithoutRun('cap_exceeded', 'tenant_daily', 'full'), redactionCount: 3 },
    enqueuedAtMs: 1000,
    startedAtMs: 1200,
    finishedAtMs: 1260,
    traceId: null,
    retentionDays: 30,
    caps: null,
    chargedAtMs: null,
    refusal: { dimension: 'tenant_daily', resetsAt: '2030-01-01T00:00:00.000Z', killSwitch: true },
  })
}

describe('/metrics', () => {
  it('links a bucket to its last sent trace, in OpenMetrics', async () => {
    telemetry = await startTelemetry({
      service: 'cofferdam-test',
      version: '1.0.0',
      redact: (text) => text,
      // Nothing listens there. It only matters that spans would be sent.
      otlpEndpoint: 'http://127.0.0.1:9',
      sampleRatio: 0,
      now: () => 1_700_000_000_500,
    })
    const failed = refusedAttempt()
    failed.result.trace_id = 'a'.repeat(32)
    const fine = refusedAttempt()
    Object.assign(fine.result, { trace_id: 'b'.repeat(32), ending: 'ok' })
    for (const attempt of [failed, fine]) telemetry.instruments.ended(attempt)

    const { contentType, body } = await telemetry.prometheus('application/openmetrics-text;version=1.0.0,*/*')
    expect(contentType).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8')
    const lines = body.split('\n')
    expect(lines).toContain(
      'cofferdam_execution_wait_seconds_bucket{le="0.25"} 2 ' +
        `# {trace_id="${'a'.repeat(32)}"} 0.2 1700000000.5`,
    )
    expect(lines).toContain('# TYPE cofferdam_execution_endings counter')
    expect(lines.filter((line) => line.includes('trace_id'))).toHaveLength(2)
    expect(lines.slice(-2)).toEqual(['# EOF', ''])
    const plain = await telemetry.prometheus('text/plain')
    expect(plain.body).not.toMatch(/trace_id|EOF/)
  })

  it('counts endings, waits, run times, refusals and redactions', async () => {
    const { instruments } = await start()
    instruments.ended(refusedAttempt())
    instruments.ended(refusedAttempt())
    const lines = await scrape()
    for (const expected of [
      'target_info{service_name="cofferdam-test",service_version="1.0.0",service_instance_id="one"} 1',
      '# TYPE cofferdam_execution_endings_total counter',
      'cofferdam_execution_endings_total{cofferdam_ending="cap_exceeded",cofferdam_backend="none"} 2',
      '# TYPE cofferdam_execution_wait_seconds histogram',
      'cofferdam_execution_wait_seconds_bucket{le="0.1"} 0',
      'cofferdam_execution_wait_seconds_bucket{le="0.25"} 2',
      'cofferdam_execution_wait_seconds_bucket{le="+Inf"} 2',
      'cofferdam_execution_wait_seconds_sum 0.4',
      'cofferdam_execution_wait_seconds_count 2',
      'cofferdam_execution_duration_seconds_bucket' +
        '{cofferdam_ending="cap_exceeded",cofferdam_backend="none",le="0.1"} 2',
      'cofferdam_caps_refusals_total' +
        '{cofferdam_cap_dimension="tenant_daily",cofferdam_cap_kill_switch="true"} 2',
      'cofferdam_redactions_total 6',
    ])
      expect(lines).toContain(expected)
  })

  it('sums charged CPU time and cost by backend, without uncharged attempts', async () => {
    const { instruments } = await start()
    const charged = refusedAttempt()
    charged.result.backend = 'gvisor'
    Object.assign(charged.audit, { charged_cpu_ms: 1500, cost: 2_500_000 })
    instruments.ended(charged)
    instruments.ended(charged)
    instruments.ended(refusedAttempt())
    const lines = (await scrape()).filter((line) => line.startsWith('cofferdam_usage_'))
    expect(lines).toEqual([
      'cofferdam_usage_cpu_seconds_total{cofferdam_backend="gvisor"} 3',
      'cofferdam_usage_cost_total{cofferdam_backend="gvisor"} 5',
    ])
  })

  it('reads the pools of a dispatcher, with a gap for an unknown depth', async () => {
    const { instruments } = await start()
    instruments.observeDispatcher(() => [
      { pool: 'cofferdam', spareTarget: 7, sessions: 12, depth: 3 },
      { pool: 'local', spareTarget: 2, sessions: 0, depth: null },
    ])
    const lines = (await scrape()).filter((line) => line.startsWith('cofferdam_dispatcher_'))
    expect(lines.toSorted()).toEqual([
      'cofferdam_dispatcher_depth{cofferdam_pool_name="cofferdam"} 3',
      'cofferdam_dispatcher_sessions{cofferdam_pool_name="cofferdam"} 12',
      'cofferdam_dispatcher_sessions{cofferdam_pool_name="local"} 0',
      'cofferdam_dispatcher_spare_target{cofferdam_pool_name="cofferdam"} 7',
      'cofferdam_dispatcher_spare_target{cofferdam_pool_name="local"} 2',
    ])
  })

  it('reads queue and memory at each scrape until told to stop, and counts slots', async () => {
    const { instruments } = await start()
    let queued = 3
    const stop = instruments.observeFleet(async () => ({
      lanes: {
        interactive: { queued, delayed: 1, running: 2, oldest_age_ms: 1500, window: 5 },
        routine: { queued: 0, delayed: 0, running: 0, oldest_age_ms: null, window: 2 },
      },
      groups: [
        { group: 'process', lane: 'interactive', waiting: 2.5, running: 1, oldest_age_ms: 1200 },
        { group: 'process', lane: 'routine', waiting: 0, running: 0, oldest_age_ms: null },
      ],
      workers: [
        { slots: 4, running: 3, last_seen_ms: 400 },
        { slots: 2, running: 1, last_seen_ms: 900 },
        { slots: 8, running: 8, last_seen_ms: 16_000 },
      ],
      outbox: 7,
      auditFaults: 2,
      callbacks: { due: 2, retrying: 5 },
      lockMs: 15_000,
    }))
    instruments.observeWorker(() => ({ busy: 1, total: 4, beatAgeMs: 250 }))
    instruments.auditBatch({ rows: 12, ms: 3, ok: true })
    instruments.traceDecided('failed')
    instruments.slotEvent({ type: 'taken', backend: 'docker', warm: true })
    instruments.slotEvent({ type: 'dropped', backend: 'docker', why: 'age' })
    instruments.slotEvent({ type: 'warmed', backend: 'docker', ms: 130 })
    instruments.observeMemory(() => ({ usedBytes: 512, limitBytes: 1024, waiting: 2 }))
    const lines = await scrape()
    for (const expected of [
      '# TYPE cofferdam_queue_depth gauge',
      'cofferdam_queue_depth{cofferdam_lane="interactive",cofferdam_state="queued"} 3',
      'cofferdam_queue_depth{cofferdam_lane="interactive",cofferdam_state="running"} 2',
      'cofferdam_queue_age_seconds{cofferdam_lane="interactive"} 1.5',
      'cofferdam_queue_age_seconds{cofferdam_lane="routine"} 0',
      'cofferdam_group_depth' +
        '{cofferdam_worker_group="process",cofferdam_lane="interactive",cofferdam_state="waiting"} 2.5',
      'cofferdam_group_age_seconds{cofferdam_worker_group="process",cofferdam_lane="interactive"} 1.2',
      'cofferdam_group_age_seconds{cofferdam_worker_group="process",cofferdam_lane="routine"} 0',
      'cofferdam_pool_slots_total{cofferdam_backend="docker",cofferdam_state="taken_warm"} 1',
      'cofferdam_pool_slots_total' +
        '{cofferdam_backend="docker",cofferdam_state="dropped",cofferdam_pool_why="age"} 1',
      'cofferdam_pool_warm_up_seconds_count{cofferdam_backend="docker"} 1',
      'cofferdam_memory_budget_bytes{cofferdam_state="limit"} 1024',
      'cofferdam_memory_waiting 2',
      'cofferdam_queue_window{cofferdam_lane="interactive"} 5',
      // The worker without heartbeats has lost its executions, so neither its slots nor its age count.
      'cofferdam_fleet_slots{cofferdam_state="busy"} 4',
      'cofferdam_fleet_slots{cofferdam_state="total"} 6',
      'cofferdam_fleet_workers{cofferdam_state="alive"} 2',
      'cofferdam_fleet_workers{cofferdam_state="silent"} 1',
      'cofferdam_fleet_heartbeat_age_seconds 0.9',
      'cofferdam_outbox_records 7',
      'cofferdam_audit_faults 2',
      'cofferdam_callbacks{cofferdam_state="retrying"} 5',
      'cofferdam_worker_slots{cofferdam_state="total"} 4',
      'cofferdam_worker_heartbeat_age_seconds 0.25',
      'cofferdam_audit_write_seconds_bucket{cofferdam_state="written",le="0.005"} 1',
      'cofferdam_audit_batch_rows_bucket{le="20"} 1',
      'cofferdam_traces_total{cofferdam_trace_decision="failed"} 1',
    ])
      expect(lines).toContain(expected)
    queued = 9
    expect(await scrape()).toContain(
      'cofferdam_queue_depth{cofferdam_lane="interactive",cofferdam_state="queued"} 9',
    )
    stop()
    expect((await scrape()).some((line) => line.startsWith('cofferdam_queue_depth{'))).toBe(false)
  })

  it('omits metrics that cannot be read, and does not wait for readers that hang', async () => {
    const { instruments } = await start()
    instruments.observeFleet(() => Promise.reject(new Error('Redis is away')))
    instruments.observeMemory(() => new Promise(() => {}))
    instruments.ended(refusedAttempt())
    const lines = await scrape()
    expect(lines).toContain('cofferdam_redactions_total 3')
    expect(lines.some((line) => line.startsWith('cofferdam_queue_depth{'))).toBe(false)
  })

  it('bounds the series of an instrument, escapes labels and redacts them', async () => {
    await start()
    const counter = telemetry.meter('m').createCounter('many', { description: 'a\nb\\' })
    for (let i = 0; i < 1000; i++) counter.add(1, { of: `n${i}` })
    telemetry.meter('m').createGauge('odd.name-2').record(Infinity, { 'a.b': 'say "x"\n\\ hunter2-hunter2' })
    const lines = await scrape()
    const many = lines.filter((line) => line.startsWith('many_total{'))
    expect(many.length).toBeLessThanOrEqual(257)
    expect(many.some((line) => line.includes('otel_metric_overflow="true"'))).toBe(true)
    expect(lines).toContain('# HELP many_total a\\nb\\\\')
    expect(lines).toContain('odd_name_2{a_b="say \\"x\\"\\n\\\\ [redacted]"} +Inf')
  })
})
