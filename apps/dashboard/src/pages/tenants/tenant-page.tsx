import { useState } from 'preact/hooks'
import { pageAddress } from '../../address/address.ts'
import { isAdmin, mayChange } from '../../api/session.ts'
import { PageHead } from '../../parts/page-head.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { ToneDot } from '../../parts/standing-dot.tsx'
import { CallbackSecretPanel } from './callback-secret-panel.tsx'
import { CapsPanel } from './caps-panel.tsx'
import { EventPanel } from './event-panel.tsx'
import { KeyPanel } from './key-panel.tsx'
import { KillSwitch } from './kill-switch.tsx'
import { PolicyPanel } from './policy-panel.tsx'
import { standingOf, tenantPath } from './tenant.ts'
import { UsagePanel } from './usage-panel.tsx'
import { UsageReportPanel } from './usage-report.tsx'
import { useLoad, useTenant, useUsage } from './use-tenant.ts'

/** One tenant: whether it may run, what it may use and uses, its keys, and who changed what. */
export function TenantPage({ id }: { id: string }) {
  const tenant = useTenant(id)
  const usage = useUsage(id)
  const { load, reload: reloadLoad } = useLoad(id)
  const [version, setVersion] = useState(0)
  /** Reads usage and load again, for dialogs that show them before they change something. */
  const refresh = (): void => {
    usage.reload()
    reloadLoad()
  }
  const changed = (): void => {
    tenant.reload()
    refresh()
    setVersion((before) => before + 1)
  }
  return (
    <>
      {isAdmin.value && (
        <nav class="crumbs" aria-label="Path">
          <a href={pageAddress('/tenants')}>Tenants</a> <span aria-hidden="true">/</span>
        </nav>
      )}
      <PageHead title={id}>
        <a class="button" href={pageAddress('/executions', { tenant: isAdmin.value ? id : null })}>
          Its executions
        </a>
        {tenant.data !== null && isAdmin.value && mayChange.value && (
          <KillSwitch
            id={id}
            tenant={tenant.data}
            usage={usage.data}
            load={load}
            onAsk={refresh}
            onDone={changed}
          />
        )}
      </PageHead>
      <ResourceView of={tenant} what="the tenant" lines={10}>
        {(data) => {
          const { tone, words, why } = standingOf(data)
          return (
            <>
              <div class="verdict">
                <ToneDot tone={tone}>{words}</ToneDot>
                <span class="muted">{why}</span>
              </div>
              <div class="execution">
                <div class="execution-main">
                  <CapsPanel
                    id={id}
                    caps={data.caps}
                    usage={usage.data}
                    load={load}
                    onAsk={refresh}
                    onSaved={changed}
                  />
                  <UsageReportPanel id={id} />
                  {isAdmin.value && <KeyPanel id={id} onChanged={changed} />}
                  <EventPanel
                    path={tenantPath(id, 'policy/events')}
                    query={{ limit: '20' }}
                    version={version}
                  />
                </div>
                <div class="execution-side">
                  <UsagePanel usage={usage} load={load} />
                  <PolicyPanel id={id} policy={data.policy} onSaved={changed} />
                  <CallbackSecretPanel id={id} onChanged={changed} />
                </div>
              </div>
            </>
          )
        }}
      </ResourceView>
    </>
  )
}
