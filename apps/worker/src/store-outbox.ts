/**
 * Writes what waited in the Redis outbox: attempts that ended while Postgres was away, and executions that were
 * cancelled in the queue by processes that know no tenant policy. Idempotent; throws while Postgres is away.
 */
import type { AttemptRecord } from '@cofferdam/contract'
import type { WorkerDeps } from './worker-deps.ts'

export async function storeOutbox(records: readonly AttemptRecord[], deps: WorkerDeps): Promise<void> {
  await Promise.all(
    records.map(async ({ audit, ...rest }) => {
      const { tenant } = await deps.policies.read(audit.tenant_id, undefined)
      const retention_days = tenant?.retention_days ?? audit.retention_days
      await deps.store.record({ ...rest, audit: { ...audit, retention_days } })
    }),
  )
}
