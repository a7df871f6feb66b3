/**
 * Writes what waited in the Redis outbox: attempts that ended while Postgres was away, and executions that were
 * cancelled in the queue by processes that know no tenant policy. Idempotent; throws while Postgres is away.
 */
import type { AttemptRecord } from '@cofferdam/contract'
import { settlementOf } from './close-attempt.ts'
import { retentionOf } from './read-policy.ts'
import { settleUnleased } from './settle-unleased.ts'
import type { WorkerDeps } from './worker-deps.ts'

export async function storeOutbox(records: readonly AttemptRecord[], deps: WorkerDeps): Promise<void> {
  await Promise.all(
    records.map(async ({ audit, ...rest }) => {
      const { tenant, template } = await deps.policies.read({
        tenant_id: audit.tenant_id,
        agent_id: audit.agent_id,
        ...(audit.template_id === null ? {} : { template_id: audit.template_id }),
      })
      const retention_days = retentionOf(tenant, template) ?? audit.retention_days
      const { inserted } = await deps.store.record({ ...rest, audit: { ...audit, retention_days } })
      const { tenant_id: tenantId, agent_id: agentId, attempt } = audit
      const { execution_id: executionId } = rest.result
      const first = inserted ? null : await deps.store.findAttempt(executionId, attempt)
      // Whoever admitted it may have died before anything was settled.
      const key = { tenantId, agentId, executionId, attempt }
      await settleUnleased(key, settlementOf(first ?? { audit }), deps)
    }),
  )
}
