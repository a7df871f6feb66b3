import type { ComponentChildren } from 'preact'
import { queryValue } from '../address/address.ts'
import { session } from '../api/session.ts'
import { Empty } from './problem.tsx'

/** The tenant that is looked at: the key’s, or the chosen one. Null if an operator chose none. */
export const lookedAtTenant = (): string | null => session.value?.tenant_id ?? queryValue('tenant')

/** Shows something of one tenant, or asks for one. */
export function OfTenant({ what, children }: { what: string; children: (id: string) => ComponentChildren }) {
  const tenantId = lookedAtTenant()
  if (tenantId !== null) return <>{children(tenantId)}</>
  return (
    <div class="table-frame">
      <Empty title="Choose a tenant at the top.">{what} belong to one tenant.</Empty>
    </div>
  )
}
