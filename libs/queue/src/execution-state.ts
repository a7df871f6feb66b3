/** Public states read from the replies of locate.lua and live.lua. */
import {
  executionEventSchema,
  type ExecutionId,
  type ExecutionResult,
  type ExecutionState,
} from '@cofferdam/contract'
import { list, numberOrNull, text, type Reply } from './scripts.ts'

/** Reads one description (lua/include/describe.lua). An ended execution gets its `result`. */
export function stateOf(description: Reply | undefined, result: ExecutionResult | null): ExecutionState {
  const [id, tenant, agent, status, attempt, enqueued, started, position, eta, progress, ...more] =
    list(description)
  const [rerunOf, kind, session, backend] = more
  const shown = text(status) as ExecutionState['status']
  return {
    execution_id: text(id) as ExecutionId,
    tenant_id: text(tenant),
    agent_id: text(agent),
    status: shown,
    ...(text(rerunOf) === '' ? {} : { rerun_of: text(rerunOf) as ExecutionId }),
    ...(text(kind) === '' ? {} : { program_kind: text(kind) }),
    ...(text(session) === '' || shown === 'ended' ? {} : { session_key: text(session) }),
    ...(text(backend) === '' || shown === 'ended' ? {} : { backend: text(backend) }),
    attempt: numberOrNull(attempt) ?? 0,
    enqueued_at: isoOf(enqueued) ?? new Date(0).toISOString(),
    started_at: isoOf(started),
    position: nonNegative(position),
    eta_ms: nonNegative(eta),
    ...progressOf(text(progress)),
    result,
  }
}

/** Reads the last stored progress event. Empty when the program reported none. */
function progressOf(json: string): Pick<ExecutionState, 'progress'> {
  const event = json === '' ? null : executionEventSchema.safeParse(JSON.parse(json)).data
  if (event?.type !== 'progress') return {}
  const { fraction, message, at_ms: atMs } = event
  return { progress: { fraction, message, at: new Date(atMs).toISOString() } }
}

const isoOf = (reply: Reply | undefined): string | null => {
  const ms = numberOrNull(reply)
  return ms === null ? null : new Date(ms).toISOString()
}

/** The scripts return -1 for unknown. */
export const nonNegative = (reply: Reply | undefined): number | null => {
  const value = numberOrNull(reply)
  return value === null || value < 0 ? null : value
}

/** Reads a stored result. Returns null for the empty text. */
export const resultOf = (json: string): ExecutionResult | null =>
  json === '' ? null : (JSON.parse(json) as ExecutionResult)
