/**
 * Writes what waited in the Redis outbox: attempts that ended while Postgres was away, and executions that were
 * cancelled in the queue by processes that know no tenant policy. Idempotent; throws while Postgres is away.
 */
import type { AttemptRecord } from '@cofferdam/contract'
import { retentionOf } from './read-policy.ts'
import type { WorkerDeps } from './worker-deps.ts'

export async function storeOutbox(records: readonly AttemptRecord[], deps: WorkerDeps): Promise<void> {
  await Promise.all(
    records.map(async ({ audit, ...rest }) => {
      const { tenant, template } = await deps.policies.read(audit.tenant_id, audit.template_id ?? undefined)
      const retention_days = retentionOf(tenant, template) ?? audit.retention_days
      await deps.store.record({ ...rest, audit: { ...audit, retention_days } })
    }),
  )
}
