/** Reads `sandbox_invocations`: audit pages and charges. */
import {
  auditRowSchema,
  idToUuid,
  uuidToExecutionId,
  type AuditRow,
  type ExecutionId,
} from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import type { Page } from './cursor.ts'
import type { InvocationFilter } from './invocation-filter.ts'
import { invocationPage } from './invocation-pages.ts'
import type { Database, InvocationRow } from './tables.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Charged attempts of the current day and hour. Admission's counters must equal these. */
export interface ChargedCounts {
  /** Bucket: `floor(ms / 86,400,000)`. */
  day: { bucket: number; count: number; cpuMs: number; cost: number }
  /** Bucket: `floor(ms / 3,600,000)`. One entry per agent with a charge in this hour. */
  hours: { agentId: string; bucket: number; count: number }[]
  /** Those of the `unsettled` attempts that are included in `day`. */
  ended: AttemptName[]
}

export interface AttemptName {
  executionId: ExecutionId
  attempt: number
}

export async function listInvocations(
  db: Kysely<Database> | Transaction<Database>,
  filter: InvocationFilter,
): Promise<Page<AuditRow>> {
  const { rows, next_cursor } = await invocationPage(db, filter)
  return { rows: rows.map(toAuditRow), next_cursor }
}

/** A recorded attempt and the partition of its rows. */
export interface AttemptPartition {
  attempt: number
  expiresOn: string
}

/** The recorded attempts of an execution, in order. */
export async function attemptsOf(
  db: Kysely<Database> | Transaction<Database>,
  executionUuid: string,
): Promise<AttemptPartition[]> {
  const rows = await db
    .selectFrom('attempts')
    .select(['attempt', 'expires_on'])
    .where('execution_id', '=', executionUuid)
    .orderBy('attempt')
    .execute()
  return rows.map((row) => ({ attempt: row.attempt, expiresOn: row.expires_on }))
}

export async function invocationsOf(
  db: Kysely<Database> | Transaction<Database>,
  executionUuid: string,
  expiryDays: readonly string[],
): Promise<AuditRow[]> {
  if (expiryDays.length === 0) return []
  const rows = await db
    .selectFrom('sandbox_invocations')
    .selectAll()
    .where('expires_on', 'in', [...expiryDays])
    .where('execution_id', '=', executionUuid)
    .orderBy('attempt')
    .execute()
  return rows.map(toAuditRow)
}

/**
 * Counts what was charged to a tenant in the day and the hour of `atMs`, and which of `unsettled` are
 * included. One statement, so that the numbers are consistent.
 */
export async function countCharged(
  db: Kysely<Database> | Transaction<Database>,
  tenantId: string,
  atMs: number,
  unsettled: readonly AttemptName[] = [],
): Promise<ChargedCounts> {
  const day = Math.floor(atMs / DAY_MS)
  const hour = Math.floor(atMs / HOUR_MS)
  const iso = (ms: number): string => new Date(ms).toISOString()
  const charged = db
    .selectFrom('sandbox_invocations')
    .where('quota_charged', '=', true)
    .where('tenant_id', '=', tenantId)
  const count = sql<number>`count(*)`.as('count')
  const found = await charged
    .where('charged_at', '>=', iso(day * DAY_MS))
    .where('charged_at', '<', iso((day + 1) * DAY_MS))
    .select([
      count,
      sql<number>`coalesce(sum(charged_cpu_ms), 0)::int8`.as('cpuMs'),
      sql<number>`coalesce(sum(cost), 0)::int8`.as('cost'),
      sql<string[]>`coalesce(
        array_agg(execution_id || ' ' || attempt) filter (where (execution_id, attempt) in (
          select * from unnest(
            ${unsettled.map((one) => idToUuid(one.executionId))}::uuid[],
            ${unsettled.map((one) => one.attempt)}::int[]
          )
        )), '{}')`.as('ended'),
      jsonArrayFrom(
        charged
          .where('charged_at', '>=', iso(hour * HOUR_MS))
          .where('charged_at', '<', iso((hour + 1) * HOUR_MS))
          .groupBy('agent_id')
          .select(['agent_id', count]),
      ).as('hours'),
    ])
    .executeTakeFirst()
  return {
    day: {
      bucket: day,
      count: found?.count ?? 0,
      cpuMs: found?.cpuMs ?? 0,
      cost: found?.cost ?? 0,
    },
    hours: (found?.hours ?? []).map((row) => ({ agentId: row.agent_id, bucket: hour, count: row.count })),
    ended: (found?.ended ?? []).map((name) => {
      const [uuid = '', attempt] = name.split(' ')
      return { executionId: uuidToExecutionId(uuid), attempt: Number(attempt) }
    }),
  }
}

/** Which of the executions still have a row. */
export async function knownExecutions(
  db: Kysely<Database>,
  uuids: readonly string[],
): Promise<Set<ExecutionId>> {
  const rows = await db
    .selectFrom('attempts')
    .select('execution_id')
    .distinct()
    .where(sql<boolean>`execution_id = any(${[...uuids]}::uuid[])`)
    .execute()
  return new Set(rows.map((row) => uuidToExecutionId(row.execution_id)))
}

export function toAuditRow(row: InvocationRow): AuditRow {
  // A newer release's migration may have added columns that this one does not know.
  const wire = Object.fromEntries(
    Object.entries(row).filter(([name]) => Object.hasOwn(auditRowSchema.shape, name)),
  )
  // Parsing costs 10 µs and detects differences between table and wire schema.
  return auditRowSchema.parse({ ...wire, execution_id: uuidToExecutionId(row.execution_id) })
}
