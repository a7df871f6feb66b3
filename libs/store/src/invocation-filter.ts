/** Which audit rows a list asks for, as conditions that use the indexes and leave most partitions out. */
import { CofferdamError, type ExitStatus } from '@cofferdam/contract'
import type { SelectQueryBuilder } from 'kysely'
import { readCursor } from './cursor.ts'
import type { Database } from './tables.ts'

const DAY_MS = 86_400_000
const MAX_RETENTION_DAYS = 180

export interface InvocationFilter {
  /** Null: every tenant, for admins. */
  tenantId: string | null
  agentId?: string
  exitStatus?: ExitStatus
  /** Executions enqueued at or after this, ISO 8601. */
  from?: string
  /** Executions enqueued before this, ISO 8601. */
  to?: string
  limit: number
  /** `next_cursor` of the page before. */
  cursor?: string
}

/** Adds the conditions of `filter` and the order newest first; throws `invalid_request`. */
export function filtered<O>(
  query: SelectQueryBuilder<Database, 'sandbox_invocations', O>,
  filter: InvocationFilter,
): SelectQueryBuilder<Database, 'sandbox_invocations', O> {
  let q = query.orderBy('execution_id', 'desc').orderBy('attempt', 'desc')
  if (filter.tenantId !== null) q = q.where('tenant_id', '=', filter.tenantId)
  if (filter.agentId !== undefined) q = q.where('agent_id', '=', filter.agentId)
  if (filter.exitStatus !== undefined) q = q.where('exit_status', '=', filter.exitStatus)
  let beforeMs: number | null = null
  if (filter.from !== undefined) {
    const fromMs = instant('from', filter.from)
    // A row expires a day after its making at the earliest and 180 days after it at the latest.
    q = q.where('execution_id', '>=', firstUuidAt(fromMs)).where('expires_on', '>', dateOf(fromMs))
  }
  if (filter.to !== undefined) {
    beforeMs = instant('to', filter.to)
    q = q.where('execution_id', '<', firstUuidAt(beforeMs))
  }
  if (filter.cursor !== undefined) {
    const { executionUuid, attempt } = readCursor(filter.cursor)
    const cursorMs = Number.parseInt(executionUuid.replace('-', '').slice(0, 12), 16)
    beforeMs = beforeMs === null ? cursorMs : Math.min(beforeMs, cursorMs)
    q = q.where((eb) => eb(eb.refTuple('execution_id', 'attempt'), '<', eb.tuple(executionUuid, attempt)))
  }
  if (beforeMs !== null) q = q.where('expires_on', '<=', dateOf(beforeMs + MAX_RETENTION_DAYS * DAY_MS))
  return q
}

/** The smallest version-7 UUID of a millisecond. */
function firstUuidAt(ms: number): string {
  const hex = ms.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/** The latest time of a JavaScript Date whose dates Postgres and `YYYY-MM-DD` both take. */
const MAX_MS = Date.parse('9000-01-01T00:00:00Z')

function instant(field: string, text: string): number {
  const ms = Date.parse(text)
  if (Number.isNaN(ms) || ms < 0 || ms > MAX_MS)
    throw new CofferdamError(
      'invalid_request',
      `${field}: expected an ISO 8601 time, got ${text.slice(0, 60)}.`,
    )
  return ms
}

const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
