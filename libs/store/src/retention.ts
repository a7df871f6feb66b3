/** Retention: partitions ahead of time, partitions whose day is over, and the blobs that belonged to their rows. */
import { executionIdSchema, idToUuid } from '@cofferdam/contract'
import { sql, type Kysely } from 'kysely'
import { knownExecutions } from './invocations.ts'
import type { LocalBlobs } from './local-blobs.ts'
import { translating } from './store-errors.ts'
import type { Database } from './tables.ts'

const DAY_MS = 86_400_000
const DEFAULT_RETENTION_DAYS = 30
/**
 * Blobs of younger executions are left alone whatever the tables say: an execution may wait 24 h and run 24 h, and its
 * row may stand in the outbox while Postgres is away for a day.
 */
const BLOB_GRACE_DAYS = 3
/** drop_expired handles 32 days a call; this covers two years without retention. */
const MAX_ROUNDS = 24

export interface Retention {
  /** Makes the partitions of today and tomorrow for every retention in use. A missing one is made on demand too. */
  ensurePartitions(nowMs: number): Promise<void>
  /**
   * Drops the partitions whose expiry day is over by `nowMs` and by the server's clock, then the blobs without rows.
   * A row with a retention of n days so lives for n to n + 1 days. Blobs of ended executions go before their rows where
   * the tenant's `output_retention_days` says so, counted from enqueueing like the rows'. Returns the dropped days and the count of
   * executions whose blobs went.
   */
  dropExpired(nowMs: number): Promise<{ days: string[]; blobs: number }>
  /**
   * What an owner of the schema did to the audit tables that triggers cannot refuse, a sentence each; none
   * when all is well. Reads every row's day: a second for a million, cut at five minutes.
   */
  auditFaults(): Promise<string[]>
}

/**
 * `writer` makes partitions; `sweeper` alone may drop them, and can do nothing else. `auditor` is the sweeper
 * with time to read everything.
 */
export function createRetention(
  writer: Kysely<Database>,
  sweeper: Kysely<Database>,
  auditor: Kysely<Database>,
  blobs: LocalBlobs,
): Retention {
  return {
    ensurePartitions: (nowMs) =>
      translating('the partitions', async () => {
        const rows = await writer.selectFrom('tenants').select('retention_days').distinct().execute()
        const today = Math.floor(nowMs / DAY_MS)
        for (const days of new Set([DEFAULT_RETENTION_DAYS, ...rows.map((row) => row.retention_days)]))
          for (const day of [today + days, today + days + 1])
            await sql`select ensure_partition(${dateOf(day)}::date)`.execute(writer)
      }),
    dropExpired: (nowMs) =>
      translating('the retention', async () => {
        const today = Math.floor(nowMs / DAY_MS)
        const days: string[] = []
        for (let round = 0; round < MAX_ROUNDS; round += 1) {
          const { rows } = await sql<{ day: string }>`
            select drop_expired(${dateOf(today)}::date) as day`.execute(sweeper)
          days.push(...rows.map((row) => row.day))
          if (rows.length === 0) break
        }
        const known = (ids: string[]): Promise<Set<string>> =>
          knownExecutions(
            sweeper,
            ids.map((id) => idToUuid(executionIdSchema.parse(id))),
          )
        let pruned = await blobs.prune(folderOf(today - BLOB_GRACE_DAYS), known)
        const shorter = await writer
          .selectFrom('tenants')
          .select(['tenant_id', 'output_retention_days'])
          .where('output_retention_days', 'is not', null)
          .execute()
        for (const { tenant_id, output_retention_days } of shorter)
          pruned += await blobs.pruneTenant(tenant_id, folderOf(today - (output_retention_days ?? 0)), known)
        return { days, blobs: pruned }
      }),
    auditFaults: () =>
      translating('the audit tables', async () => {
        const { rows } = await sql<{ at_table: string; fault: string }>`
          select at_table, fault from audit_faults() order by 1, 2`.execute(auditor)
        return rows.map(({ at_table, fault }) => `${at_table}: ${fault}`)
      }),
  }
}

/** Name of a day's folder in the blob directory. */
const folderOf = (day: number): string => dateOf(day).replaceAll('-', '')
const dateOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10)
