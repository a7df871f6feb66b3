/**
 * Turns the facts of one ended attempt into the result and the audit row. Pure, so that worker, cancellation
 * and sweeper write the same for the same facts.
 */
import { hash } from 'node:crypto'
import type { AuditRow } from './audit-row.ts'
import type { CapDimension, CapsUse } from './caps.ts'
import { errorClassOf, exitStatusOf, type Ending } from './endings.ts'
import type { ExecutionId } from './ids.ts'
import { BOUNDS } from './limits.ts'
import type { Outcome, OutputView } from './outcome.ts'
import { programKindOf, programSource } from './program.ts'
import type { ExecutionRequest } from './request.ts'
import { chargeOf, type Charge, type Prices } from './price.ts'
import type { Artifact } from './artifact.ts'
import type { ExecutionResult } from './result.ts'

export interface AttemptFacts {
  executionId: ExecutionId
  attempt: number
  request: ExecutionRequest
  outcome: Outcome
  enqueuedAtMs: number
  startedAtMs: number
  finishedAtMs: number
  traceId: string | null
  retentionDays: number
  /** Null when the attempt did not reach admission. */
  caps: CapsUse | null
  /** When admission charged this attempt. Null if it was not charged or was refunded. */
  chargedAtMs: number | null
  refusal?: {
    dimension: CapDimension
    resetsAt: string
    killSwitch: boolean
  }
  /** Default: everything is free. */
  prices?: Prices
  /** Whether the effective policy requires it. Default false. */
  encryptOutputs?: boolean
}

export interface AttemptRecord {
  audit: AuditRow
  result: ExecutionResult
  artifactRefs: (Artifact & { ref: string })[]
  /** The request in the blob store, kept to be run again. Absent when it is not kept. */
  requestRef?: string
  /** Store output and value encrypted. Default false. */
  encrypt?: boolean
}

const NO_OUTPUT: OutputView = { text: '', bytes: 0, truncated: false, ref: null }

/** The outcome of an attempt in which no user code ran. */
export function outcomeWithoutRun(ending: Ending, reason: string, failureReason: string): Outcome {
  return {
    ending,
    exitCode: null,
    signal: null,
    stdout: NO_OUTPUT,
    stderr: NO_OUTPUT,
    usage: null,
    artifacts: [],
    backend: null,
    isolation: null,
    warm: false,
    openMs: null,
    redactionCount: 0,
    began: false,
    failureReason: failureReason.slice(0, BOUNDS.failureReasonLength),
    reason,
    outboundHosts: [],
    session: null,
  }
}

export function composeAttempt(facts: AttemptFacts): AttemptRecord {
  const { outcome } = facts
  const durationMs = Math.max(0, facts.finishedAtMs - facts.startedAtMs)
  const queueMs = Math.max(0, facts.startedAtMs - facts.enqueuedAtMs)
  const errorClass = errorClassOf(outcome.ending)
  const charge = facts.chargedAtMs === null ? null : chargeOfAttempt(facts, durationMs)
  const result: ExecutionResult = {
    ok: outcome.ending === 'ok',
    execution_id: facts.executionId,
    attempt: facts.attempt,
    exit_status: exitStatusOf(outcome.ending),
    ending: outcome.ending,
    exit_code: outcome.exitCode,
    signal: outcome.signal,
    stdout: outcome.stdout.text,
    stderr: outcome.stderr.text,
    stdout_bytes: outcome.stdout.bytes,
    stderr_bytes: outcome.stderr.bytes,
    stdout_truncated: outcome.stdout.truncated,
    stderr_truncated: outcome.stderr.truncated,
    ...(outcome.value === undefined ? {} : { value: outcome.value }),
    duration_ms: durationMs,
    queue_ms: queueMs,
    usage: outcome.usage === null ? null : { ...outcome.usage, ...chargedUsage(charge) },
    ...(outcome.limits === undefined ? {} : { limits: outcome.limits }),
    artifacts: outcome.artifacts.map(({ path, size, sha256 }) => ({ path, size, sha256 })),
    ...leftOut(outcome),
    ...(outcome.collectedFrom === undefined ? {} : { collected_from: outcome.collectedFrom }),
    ...(outcome.tests === undefined ? {} : { tests: outcome.tests }),
    ...(outcome.install === undefined ? {} : { install: outcome.install }),
    ...(outcome.workspace === undefined ? {} : { workspace: outcome.workspace }),
    ...(outcome.session === null ? {} : { session: outcome.session }),
    ...(outcome.vendorRef === undefined ? {} : { vendor_ref: outcome.vendorRef }),
    backend: outcome.backend,
    isolation: outcome.isolation,
    trace_id: facts.traceId,
    caps: capsWith(facts.caps, charge),
    ...(errorClass === null ? {} : { error: errorClass }),
    ...(outcome.failureReason === null ? {} : { error_message: outcome.failureReason }),
    ...(outcome.reason === null ? {} : { reason: outcome.reason }),
    ...(facts.refusal === undefined
      ? {}
      : {
          dimension: facts.refusal.dimension,
          resets_at: facts.refusal.resetsAt,
          ...(facts.refusal.killSwitch ? { kill_switch: true } : {}),
        }),
  }
  return {
    audit: auditRow(facts, result, charge, durationMs, queueMs),
    result,
    artifactRefs: outcome.artifacts,
    ...(facts.encryptOutputs === true ? { encrypt: true } : {}),
  }
}

/** What the caller asked for and did not get. */
function leftOut({ artifactsOmitted = [], artifactsIncomplete, envDropped = [] }: Outcome) {
  return {
    ...(artifactsOmitted.length === 0 ? {} : { artifacts_omitted: [...artifactsOmitted] }),
    ...(artifactsIncomplete === true ? { artifacts_incomplete: true } : {}),
    ...(envDropped.length === 0 ? {} : { env_dropped: [...envDropped] }),
  }
}

function chargeOfAttempt({ outcome, request, prices = {} }: AttemptFacts, durationMs: number): Charge {
  const { began, backend, usage } = outcome
  return chargeOf({ began, backend, usage, wallMs: durationMs }, request.limits, prices)
}

const chargedUsage = (charge: Charge | null) =>
  charge === null ? {} : { charged_cpu_ms: charge.cpuMs, cost: charge.cost }

/** Adds this attempt's CPU time and cost, so that the caller sees the use after it. */
function capsWith(caps: CapsUse | null, charge: Charge | null): CapsUse | null {
  if (caps === null || charge === null) return caps
  const { tenant_daily_cpu: cpu, tenant_daily_cost: cost } = caps
  return {
    ...caps,
    ...(cpu === undefined
      ? {}
      : { tenant_daily_cpu: { ...cpu, used: (Math.round(cpu.used * 1000) + charge.cpuMs) / 1000 } }),
    ...(cost === undefined ? {} : { tenant_daily_cost: { ...cost, used: cost.used + charge.cost } }),
  }
}

function passedOver({ passedOver: backends = [] }: Outcome): string | null {
  const words = backends.map(({ backend, reason }) => `${backend} ${reason}`)
  return words.length === 0 ? null : words.join(', ').slice(0, BOUNDS.passedOverLength)
}

function auditRow(
  facts: AttemptFacts,
  result: ExecutionResult,
  charge: Charge | null,
  durationMs: number,
  queueMs: number,
): AuditRow {
  const { request, outcome } = facts
  return {
    execution_id: facts.executionId,
    attempt: facts.attempt,
    tenant_id: request.tenant_id,
    agent_id: request.agent_id,
    user_id: request.user_id ?? null,
    run_id: request.run_id ?? null,
    template_id: request.template_id ?? null,
    tool_call_id: request.tool_call_id ?? null,
    session_id: result.session?.id ?? null,
    environment_id: request.environment,
    invocation_source: request.invocation_source ?? 'queue',
    backend: outcome.backend,
    isolation: outcome.isolation,
    interpreter_id: outcome.interpreterId ?? null,
    vendor_ref: outcome.vendorRef ?? null,
    passed_over: passedOver(outcome),
    started_at: new Date(facts.startedAtMs).toISOString(),
    finished_at: new Date(Math.max(facts.finishedAtMs, facts.startedAtMs)).toISOString(),
    duration_ms: durationMs,
    queue_ms: queueMs,
    session_start_ms: outcome.openMs,
    service_execution_time: outcome.serviceExecutionTime ?? null,
    exit_status: result.exit_status,
    ending: outcome.ending,
    exit_code: outcome.exitCode,
    error_class: errorClassOf(outcome.ending),
    failure_reason: outcome.failureReason,
    quota_dimension: facts.refusal?.dimension ?? null,
    quota_charged: facts.chargedAtMs !== null,
    charged_at: facts.chargedAtMs === null ? null : new Date(facts.chargedAtMs).toISOString(),
    stdout_bytes: outcome.stdout.bytes,
    stderr_bytes: outcome.stderr.bytes,
    stdout_truncated: outcome.stdout.truncated,
    stderr_truncated: outcome.stderr.truncated,
    stdout_ref: outcome.stdout.ref,
    stderr_ref: outcome.stderr.ref,
    redaction_count: outcome.redactionCount,
    peak_memory_mb:
      outcome.usage?.peak_memory_bytes == null ? null : outcome.usage.peak_memory_bytes / 1_048_576,
    cpu_ms: outcome.usage?.cpu_ms ?? null,
    charged_cpu_ms: charge?.cpuMs ?? null,
    charged_gb_seconds: charge?.gbSeconds ?? null,
    cost: charge?.cost ?? null,
    outbound_hosts: outcome.outboundHosts,
    program_kind: programKindOf(request.program),
    executed_code_hash: hash('sha256', programSource(request.program), 'hex'),
    trace_id: facts.traceId,
    rerun_of: request.rerun_of ?? null,
    retention_days: facts.retentionDays,
  }
}
