/**
 * The filter of audit lists. A page is read in two steps, so that it costs the same with any filter and any
 * number of rows and partitions:
 *
 *   1 keys   the next keys of the tenant (by its index), or of all (`attempts`, which has no partitions)
 *   2 rows   the rows of these keys, in their partitions only, that match the other conditions
 */
import {
  CofferdamError,
  idToUuid,
  type Ending,
  type ExecutionId,
  type ExitStatus,
  type ProgramKind,
} from '@cofferdam/contract'
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import { readCursor } from './cursor.ts'

const DAY_MS = 86_400_000
const MAX_RETENTION_DAYS = 180

export interface InvocationFilter {
  /** Null for all tenants, for admins. */
  tenantId: string | null
  /** `exe_…` */
  executionId?: ExecutionId
  agentId?: string
  userId?: string
  runId?: string
  templateId?: string
  exitStatus?: ExitStatus
  ending?: Ending
  backend?: string
  traceId?: string
  /** SHA-256 of the program as submitted, in lowercase hex. */
  codeHash?: string
  /** `host` for any port, or `host:port`. */
  outboundHost?: string
  /** `ses_…`, the sandbox of a session. */
  sessionId?: string
  /** `script` finds scripts of every language. */
  programKind?: ProgramKind
  /** Attempts that took at least this long from the take to the ending, milliseconds. */
  minDurationMs?: number
  /** Attempts that took at most this long. */
  maxDurationMs?: number
  /** Executions enqueued at or after this, ISO 8601. */
  from?: string
  /** Executions enqueued before this, ISO 8601. */
  to?: string
  limit: number
  /** `next_cursor` of the previous page. */
  cursor?: string
}

type Condition = RawBuilder<SqlBool>
const is = (column: string, value: string): Condition => sql`${sql.ref(column)} = ${value}`

/** Conditions on the key, valid for `attempts` and for `sandbox_invocations`. Throws `invalid_request`. */
export function keyConditions(filter: InvocationFilter): Condition[] {
  const found: Condition[] = []
  let beforeMs: number | null = null
  if (filter.executionId !== undefined) {
    const uuid = idToUuid(filter.executionId)
    beforeMs = timeOfUuid(uuid)
    found.push(sql`execution_id = ${uuid}::uuid`, sql`expires_on > ${dateOf(beforeMs)}`)
  }
  if (filter.from !== undefined) {
    const fromMs = instant('from', filter.from)
    // A row expires 1 to 180 days after its execution was created. So Postgres can skip the partitions that
    // expire on the first day of the range or before it.
    found.push(sql`execution_id >= ${firstUuidAt(fromMs)}`, sql`expires_on > ${dateOf(fromMs)}`)
  }
  if (filter.to !== undefined) {
    const toMs = instant('to', filter.to)
    beforeMs = Math.min(beforeMs ?? toMs, toMs)
    found.push(sql`execution_id < ${firstUuidAt(toMs)}`)
  }
  if (filter.cursor !== undefined) {
    const { executionUuid, attempt } = readCursor(filter.cursor)
    const cursorMs = timeOfUuid(executionUuid)
    beforeMs = Math.min(beforeMs ?? cursorMs, cursorMs)
    found.push(sql`(execution_id, attempt) < (${executionUuid}::uuid, ${attempt}::int)`)
  }
  if (beforeMs !== null) found.push(sql`expires_on <= ${dateOf(beforeMs + MAX_RETENTION_DAYS * DAY_MS)}`)
  return found
}

/** Conditions that an index of `sandbox_invocations` serves in key order. */
export function ownerConditions(filter: InvocationFilter): Condition[] {
  return [
    ...(filter.tenantId === null ? [] : [is('tenant_id', filter.tenantId)]),
    ...(filter.agentId === undefined ? [] : [is('agent_id', filter.agentId)]),
  ]
}

/** The other conditions: no index serves them in key order. */
export function rowConditions(filter: InvocationFilter): Condition[] {
  const columns = {
    user_id: filter.userId,
    run_id: filter.runId,
    template_id: filter.templateId,
    exit_status: filter.exitStatus,
    ending: filter.ending,
    backend: filter.backend,
    session_id: filter.sessionId,
    trace_id: filter.traceId,
    executed_code_hash: filter.codeHash,
  }
  const found = Object.entries(columns).flatMap(([name, value]) =>
    value === undefined ? [] : [is(name, value)],
  )
  const { programKind, minDurationMs, maxDurationMs, outboundHost: host } = filter
  if (programKind === 'script') found.push(sql`program_kind like 'script/%'`)
  else if (programKind !== undefined) found.push(is('program_kind', programKind))
  if (minDurationMs !== undefined) found.push(sql`duration_ms >= ${minDurationMs}`)
  if (maxDurationMs !== undefined) found.push(sql`duration_ms <= ${maxDurationMs}`)
  if (host !== undefined)
    found.push(
      sql`exists (select from jsonb_array_elements_text(outbound_hosts) reached
          where reached = ${host} or left(reached, ${host.length + 1}::int) = ${`${host}:`})`,
    )
  return found
}

/** True if the row of every key matches the filter. A page then needs no more keys than rows. */
export const matchesEveryKey = (filter: InvocationFilter): boolean =>
  rowConditions(filter).length === 0 && (filter.tenantId !== null || filter.agentId === undefined)

/** When a version-7 UUID was made, in milliseconds. */
const timeOfUuid = (uuid: string): number => Number.parseInt(uuid.replace('-', '').slice(0, 12), 16)

/** The smallest version-7 UUID of a millisecond. */
export function firstUuidAt(ms: number): string {
  const hex = ms.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/** Latest accepted time. Postgres can store it, and `YYYY-MM-DD` can express it. */
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
