/** What names this attempt in the charge ledger. */
import type { AttemptKey } from '@cofferdam/admission'
import type { Taken } from '@cofferdam/queue'

export const admissionKey = (taken: Taken): AttemptKey => ({
  tenantId: taken.request.tenant_id,
  agentId: taken.request.agent_id,
  executionId: taken.executionId,
  attempt: taken.attempt,
  fence: taken.fence,
})
