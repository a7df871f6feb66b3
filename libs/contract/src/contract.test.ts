import { describe, expect, it } from 'vitest'
import {
  CELL_MAX,
  cellOfId,
  composeAttempt,
  ENDINGS,
  errorClassOf,
  executionIdSchema,
  executionRequestSchema,
  exitStatusOf,
  idTimeMs,
  idToUuid,
  isAtLeast,
  newExecutionId,
  outcomeWithoutRun,
  auditRowSchema,
  resultSchema,
  uuidToExecutionId,
} from './index.ts'

describe('ids', () => {
  it('contain their time, are UUIDv7 and convert to Postgres and back', () => {
    const id = newExecutionId(1_700_000_000_123)
    expect(executionIdSchema.parse(id)).toBe(id)
    expect(idTimeMs(id)).toBe(1_700_000_000_123)
    expect(idToUuid(id)).toMatch(/^018bcfe5-687b-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(uuidToExecutionId(idToUuid(id))).toBe(id)
  })

  it.each([1, 77, CELL_MAX])('name cell %i, and keep their time and form', (cell) => {
    const id = newExecutionId(1_700_000_000_123, cell)
    expect(executionIdSchema.parse(id)).toBe(id)
    expect(cellOfId(id)).toBe(cell)
    expect(idTimeMs(id)).toBe(1_700_000_000_123)
    expect(uuidToExecutionId(idToUuid(id))).toBe(id)
  })

  it('name cell 0 when they are UUIDv7, whatever their random digits are', () => {
    for (let n = 0; n < 1000; n += 1) expect(cellOfId(newExecutionId())).toBe(0)
    expect(cellOfId('exe_01a1fa0833567fffa83cd82154726441')).toBe(0)
  })
})

describe('isolation', () => {
  it('never counts an emulated microVM as a microVM', () => {
    expect(isAtLeast('microvm-emulated', 'microvm')).toBe(false)
    expect(isAtLeast('microvm', 'gvisor')).toBe(true)
    expect(isAtLeast('process', 'jail')).toBe(false)
  })
})

describe('endings', () => {
  it('map to exit statuses and error classes', () => {
    expect(ENDINGS.map((e) => [e, exitStatusOf(e), errorClassOf(e)])).toEqual([
      ['ok', 'ok', null],
      ['error', 'error', 'SandboxError'],
      ['crashed', 'error', 'SandboxError'],
      ['soft_timeout', 'timeout', 'SandboxTimeout'],
      ['hard_timeout', 'timeout', 'SandboxTimeout'],
      ['oom', 'oom', 'SandboxOOM'],
      ['pids_limit', 'error', 'SandboxError'],
      ['disk_limit', 'error', 'SandboxError'],
      ['output_limit', 'error', 'SandboxError'],
      ['cancelled', 'cancelled', 'SandboxCancelled'],
      ['policy_denied', 'provisioning', 'SandboxPolicyDenied'],
      ['cap_exceeded', 'cap_exceeded', 'SandboxCapExceeded'],
      ['provisioning', 'provisioning', 'SandboxProvisioning'],
      ['sandbox_lost', 'error', 'SandboxError'],
      ['worker_lost', 'error', 'SandboxError'],
    ])
  })
})

describe('composeAttempt', () => {
  it('creates a result and an audit row that agree and fit their schemas', () => {
    const request = executionRequestSchema.parse({
      tenant_id: 'acme',
      agent_id: 'analyst',
      program: { type: 'script', language: 'python', source: 'print(1)' },
    })
    const { audit, result } = composeAttempt({
      executionId: newExecutionId(1000),
      attempt: 2,
      request,
      outcome: { ...outcomeWithoutRun('cap_exceeded', 'tenant_daily', 'full'), vendorRef: 'claim/pod' },
      enqueuedAtMs: 1000,
      startedAtMs: 1500,
      finishedAtMs: 1700,
      traceId: null,
      retentionDays: 30,
      caps: null,
      chargedAtMs: null,
      refusal: { dimension: 'tenant_daily', resetsAt: '2026-01-02T00:00:00.000Z', killSwitch: false },
    })
    expect(resultSchema.parse(result)).toMatchObject({
      ok: false,
      exit_status: 'cap_exceeded',
      error: 'SandboxCapExceeded',
      error_message: 'full',
      vendor_ref: 'claim/pod',
      dimension: 'tenant_daily',
      resets_at: '2026-01-02T00:00:00.000Z',
      queue_ms: 500,
      duration_ms: 200,
    })
    expect(auditRowSchema.parse(audit)).toMatchObject({
      attempt: 2,
      quota_charged: false,
      quota_dimension: 'tenant_daily',
      vendor_ref: 'claim/pod',
      // sha256("print(1)")
      executed_code_hash: 'd287bb7f9d15abdc5b6e98536263815744b6ef21c8f3c839fc434ca70d8efe99',
    })
  })
})
