/** Retention: creates partitions ahead of time, drops expired ones, and deletes the blobs of their rows. */
import { executionIdSchema, idToUuid } from '@cofferdam/contract'
import { sql, type Kysely } from 'kysely'
import { knownExecutions } from './invocations.ts'
import type { KeptBlobs } from './blobs/blob-store.ts'
import { translating } from './store-errors.ts'
import type { Database } from './tables.ts'

const DAY_MS = 86_400_000
const DEFAULT_RETENTION_DAYS = 30
/**
 * Blobs of younger executions are kept even without rows: an execution may wait 24 h and run 24 h, and its
 * row may be in the outbox for a day while Postgres is down.
 */
const BLOB_GRACE_DAYS = 3
/** drop_expired handles 32 days per call, so this covers two years without retention. */
const MAX_ROUNDS = 24

export interface Retention {
  /** Creates the partitions of today and tomorrow for every retention in use. Others are made on demand. */
  ensurePartitions(nowMs: number): Promise<void>
  /**
   * Drops partitions whose expiry day has passed by `nowMs` and by the server's clock, then blobs without
   * rows. A row with a retention of n days lives for n to n + 1 days. A tenant's `output_retention_days`
   * deletes the blobs of its ended executions earlier. Both count from enqueueing. Returns the dropped days
   * and how many executions lost their blobs. `keepBlobs` leaves the blobs to another call.
   */
  dropExpired(nowMs: number, options?: { keepBlobs?: boolean }): Promise<{ days: string[]; blobs: number }>
  /** Blobs are in a bucket: one sweep serves the whole fleet, and each costs requests. */
  readonly isBucket: boolean
  /**
   * Finds tampering by the schema's owner, which triggers cannot refuse. Returns one sentence for each fault.
   * Counts all rows by expiry day, at a second per million rows and for at most five minutes.
   */
  auditFaults(): Promise<string[]>
}

/**
 * `writer` creates partitions. `sweeper` may drop them, and can do nothing else. `auditor` has the same role
 * with a longer statement timeout.
 */
export function createRetention(
  writer: Kysely<Database>,
  sweeper: Kysely<Database>,
  auditor: Kysely<Database>,
  blobs: KeptBlobs,
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
    isBucket: blobs.isBucket,
    dropExpired: (nowMs, { keepBlobs = false } = {}) =>
      translating('the retention', async () => {
        const today = Math.floor(nowMs / DAY_MS)
        const days: string[] = []
        for (let round = 0; round < MAX_ROUNDS; round += 1) {
          const { rows } = await sql<{ day: string }>`
            select drop_expired(${dateOf(today)}::date) as day`.execute(sweeper)
          days.push(...rows.map((row) => row.day))
          if (rows.length === 0) break
        }
        if (keepBlobs) return { days, blobs: 0 }
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
        await blobs.sweepUnfinished((today - BLOB_GRACE_DAYS) * DAY_MS)
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

const folderOf = (day: number): string => dateOf(day).replaceAll('-', '')
const dateOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10)
