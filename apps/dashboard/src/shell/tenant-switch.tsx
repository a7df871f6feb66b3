import type { Operations } from '@cofferdam/client'
import { go, queryValue, withQuery } from '../address/address.ts'
import { read } from '../api/call.ts'
import { useResource } from '../api/use-resource.ts'

/** The most tenants that are offered. Others can be typed. */
const OFFERED = '500'

/** Operators choose one tenant or all. The choice is in the address and stays from page to page. */
export function TenantSwitch() {
  const tenants = useResource('tenants', (signal) =>
    read<Operations['listTenants']['result']>('/v1/tenants', { query: { limit: OFFERED }, signal }),
  )
  const chosen = queryValue('tenant') ?? ''
  const choose = (event: Event): void => {
    if (!(event.target instanceof HTMLInputElement)) return
    go(withQuery({ tenant: event.target.value.trim(), cursor: null }))
  }
  return (
    <div class="tenant-switch">
      <label class="unseen" for="tenant">
        Tenant
      </label>
      <input
        id="tenant"
        key={chosen}
        defaultValue={chosen}
        placeholder="All tenants"
        list="tenants"
        autocomplete="off"
        spellcheck={false}
        maxLength={128}
        onChange={choose}
      />
      <datalist id="tenants">
        {tenants.data?.tenants.map(({ policy }) => (
          <option key={policy.tenant_id} value={policy.tenant_id} />
        ))}
      </datalist>
      {chosen !== '' && (
        <a class="icon-button" href={withQuery({ tenant: null, cursor: null })} aria-label="All tenants">
          ✕
        </a>
      )}
    </div>
  )
}
