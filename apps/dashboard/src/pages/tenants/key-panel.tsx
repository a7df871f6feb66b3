import type { ApiKey, Operations } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { read } from '../../api/call.ts'
import { mayChange } from '../../api/session.ts'
import { useResource } from '../../api/use-resource.ts'
import { Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { ToneDot } from '../../parts/standing-dot.tsx'
import { When } from '../../parts/when.tsx'
import { NewKeyDialog } from './new-key-dialog.tsx'
import { RevokeKeyDialog } from './revoke-key-dialog.tsx'
import { tenantPath } from './tenant.ts'

/** The tenant’s keys. An operator makes and revokes them. */
export function KeyPanel({ id, onChanged }: { id: string; onChanged: () => void }) {
  const [open, setOpen] = useState<ApiKey | 'new' | null>(null)
  const keys = useResource(id, (signal) =>
    read<Operations['listKeys']['result']>(tenantPath(id, 'keys'), { signal }),
  )
  const close = (): void => {
    setOpen(null)
    keys.reload()
    onChanged()
  }
  return (
    <Panel
      title="Keys"
      class="flush"
      aside={
        mayChange.value && (
          <button type="button" class="button" onClick={() => setOpen('new')}>
            Make a key
          </button>
        )
      }
    >
      <ResourceView of={keys} what="the keys" lines={3}>
        {(data) =>
          data.keys.length === 0 ? (
            <Empty title="It has no keys.">A tenant’s programs come with a key of it.</Empty>
          ) : (
            <table class="rows cards">
              <thead>
                <tr>
                  <th>State</th>
                  <th>Label</th>
                  <th>Key</th>
                  <th>Template</th>
                  <th class="figure">Made</th>
                  <th class="figure">Used</th>
                  {mayChange.value && <th aria-label="Actions" />}
                </tr>
              </thead>
              <tbody>
                {data.keys.map((key) => (
                  <KeyRow key={key.id} of={key} onRevoke={() => setOpen(key)} />
                ))}
              </tbody>
            </table>
          )
        }
      </ResourceView>
      {open === 'new' && <NewKeyDialog id={id} onClose={close} />}
      {open !== null && open !== 'new' && <RevokeKeyDialog id={id} of={open} onClose={close} />}
    </Panel>
  )
}

function KeyRow({ of, onRevoke }: { of: ApiKey; onRevoke: () => void }) {
  const isValid = of.revoked_at === null
  return (
    <tr>
      <td class="nowrap">
        <ToneDot tone={isValid ? 'ok' : 'wait'}>{isValid ? 'Valid' : 'Revoked'}</ToneDot>
        {of.read_only && <span class="badge">read only</span>}
      </td>
      <td class="wide key-label">{of.label}</td>
      <td class="mono">{of.id}</td>
      <td>{of.template_id !== null && <span class="cut">{of.template_id}</span>}</td>
      <td class="figure" data-name="made">
        <When at={of.created_at} />
      </td>
      <td class="figure" data-name="used">
        <When at={of.last_used_at} />
      </td>
      {mayChange.value && (
        <td class="figure">
          {isValid && (
            <button type="button" class="button danger" aria-label={`Revoke ${of.id}`} onClick={onRevoke}>
              Revoke
            </button>
          )}
        </td>
      )}
    </tr>
  )
}
