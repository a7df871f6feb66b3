/** One line of the list, made of a live state or of an audit row. */
import type { AuditRow, ExecutionState } from '@cofferdam/client'
import type { Status } from '../../words/endings.ts'

export interface Row {
  id: string
  tenantId: string
  agentId: string
  status: Status
  /** Null until it ended. */
  ending: string | null
  attempt: number
  /** The backend that ran it; before the start, the one that its request names. Null if there is neither. */
  backend: string | null
  isolation: string | null
  exitCode: number | null
  /** Micro-units. Null when not charged (yet). */
  cost: number | null
  enqueuedAtMs: number
  /** When a worker took it. Null before that. */
  startedAtMs: number | null
  endedAtMs: number | null
  /** Its place among those that wait. Null unless queued. */
  position: number | null
  /** Share that is done, 0 to 1. Null without a report. */
  progress: number | null
}

/** The row of an execution that waits or runs. */
export function liveRow(state: ExecutionState): Row {
  return {
    id: state.execution_id,
    tenantId: state.tenant_id,
    agentId: state.agent_id,
    status: state.status,
    ending: state.result?.ending ?? null,
    attempt: state.attempt,
    backend: state.result?.backend ?? state.backend ?? null,
    isolation: state.result?.isolation ?? null,
    exitCode: state.result?.exit_code ?? null,
    cost: state.result?.usage?.cost ?? null,
    enqueuedAtMs: Date.parse(state.enqueued_at),
    startedAtMs: state.started_at === null ? null : Date.parse(state.started_at),
    endedAtMs:
      state.result === null || state.started_at === null
        ? null
        : Date.parse(state.started_at) + state.result.duration_ms,
    position: state.position,
    progress: state.progress?.fraction ?? null,
  }
}

/** The row of an attempt that ended. */
export function endedRow(row: AuditRow): Row {
  const startedAtMs = Date.parse(row.started_at)
  return {
    id: row.execution_id,
    tenantId: row.tenant_id,
    agentId: row.agent_id,
    status: 'ended',
    ending: row.ending,
    attempt: row.attempt,
    backend: row.backend,
    isolation: row.isolation,
    exitCode: row.exit_code,
    cost: row.cost,
    enqueuedAtMs: startedAtMs - row.queue_ms,
    startedAtMs,
    endedAtMs: Date.parse(row.finished_at),
    position: null,
    progress: null,
  }
}
