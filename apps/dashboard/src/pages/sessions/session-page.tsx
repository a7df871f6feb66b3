import type { Operations } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { go, pageAddress } from '../../address/address.ts'
import { call, read } from '../../api/call.ts'
import { asFailure, type Failure } from '../../api/failure.ts'
import { mayChange } from '../../api/session.ts'
import { useResource } from '../../api/use-resource.ts'
import { Modal } from '../../parts/modal.tsx'
import { Facts, Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { When } from '../../parts/when.tsx'
import { FilePanel } from './file-panel.tsx'
import { SessionState } from './session-state.tsx'

const EVERY_MS = 5000

/** The API’s path of a session. */
export const sessionPath = (backend: string, key: string): string =>
  `/v1/backends/${encodeURIComponent(backend)}/sessions/${encodeURIComponent(key)}`

/** One session: its state, its files, and a button that ends it. */
export function SessionPage(props: { tenantId: string; backend: string; name: string }) {
  const { tenantId, backend, name } = props
  const path = sessionPath(backend, name)
  const [ends, setEnds] = useState(false)
  const session = useResource(
    `${tenantId} ${path}`,
    (signal) => read<Operations['getSession']['result']>(path, { query: { tenant_id: tenantId }, signal }),
    EVERY_MS,
  )
  return (
    <ResourceView of={session} what="the session" lines={6}>
      {(data) => (
        <div class="execution">
          <div class="execution-main">
            <FilePanel path={path} tenantId={tenantId} state={data.state} />
          </div>
          <div class="execution-side">
            <Panel
              title="Details"
              aside={
                mayChange.value && (
                  <button type="button" class="button danger" onClick={() => setEnds(true)}>
                    End
                  </button>
                )
              }
            >
              <Facts
                of={[
                  ['State', <SessionState state={data.state} />],
                  ['Tenant', data.tenant_id],
                  ['Backend', data.backend],
                  ['Keeps', data.scope],
                  [
                    'Session',
                    <a class="mono" href={pageAddress('/executions', { session_id: data.session_id })}>
                      {data.session_id}
                    </a>,
                  ],
                  ['Worker', data.worker],
                  ['Only on', data.owner],
                  ['Created', <When at={data.created_at} />],
                  ['Used', <When at={data.used_at} />],
                  ['May end', <When at={data.idle_at} />],
                  ['Ends by', data.expires_at === null ? null : <When at={data.expires_at} />],
                  [
                    'Last execution',
                    data.last_execution_id === null ? null : (
                      <a class="mono" href={pageAddress(`/executions/${data.last_execution_id}`)}>
                        …{data.last_execution_id.slice(-8)}
                      </a>
                    ),
                  ],
                ]}
              />
            </Panel>
          </div>
          {ends && <EndDialog path={path} tenantId={tenantId} name={name} onClose={() => setEnds(false)} />}
        </div>
      )}
    </ResourceView>
  )
}

function EndDialog(props: { path: string; tenantId: string; name: string; onClose: () => void }) {
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<Failure | null>(null)
  const end = async (): Promise<void> => {
    setBusy(true)
    try {
      await call<unknown>('DELETE', props.path, { query: { tenant_id: props.tenantId } })
      go(pageAddress('/sessions'))
    } catch (error) {
      setFailure(asFailure(error))
      setBusy(false)
    }
  }
  return (
    <Modal title="End the session" onClose={props.onClose}>
      <div class="modal-body">
        <p>
          The sandbox of <strong>{props.name}</strong> is destroyed with everything in it, after what runs in
          it now.
        </p>
        {failure !== null && <Problem failure={failure} />}
        <div class="modal-actions">
          <button type="button" class="button" onClick={props.onClose}>
            Keep it
          </button>
          <button type="button" class="button danger" disabled={isBusy} onClick={() => void end()}>
            {isBusy ? 'Ending' : 'End the session'}
          </button>
        </div>
      </div>
    </Modal>
  )
}
