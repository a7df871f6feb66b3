import type { Operations } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { call, read } from '../../api/call.ts'
import { asFailure, type Failure } from '../../api/failure.ts'
import { mayChange } from '../../api/session.ts'
import { useResource } from '../../api/use-resource.ts'
import { Modal } from '../../parts/modal.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { When } from '../../parts/when.tsx'
import { ShownOnce } from './shown-once.tsx'
import { tenantPath } from './tenant.ts'

type Info = Operations['getCallbackSecret']['result']
type Made = Operations['rotateCallbackSecret']['result']

/** When the secret was made. Null if there is none, which the API says with not_found. */
async function readInfo(id: string, signal: AbortSignal): Promise<{ made: string | null }> {
  try {
    return { made: (await read<Info>(tenantPath(id, 'callback-secret'), { signal })).rotated_at }
  } catch (error) {
    if (asFailure(error).code === 'not_found') return { made: null }
    throw error
  }
}

/** The secret that callbacks are signed with. A tenant makes its own. */
export function CallbackSecretPanel({ id, onChanged }: { id: string; onChanged: () => void }) {
  const [asks, setAsks] = useState(false)
  const info = useResource(id, (signal) => readInfo(id, signal))
  const close = (): void => {
    setAsks(false)
    info.reload()
    onChanged()
  }
  return (
    <Panel
      title="Callback secret"
      aside={
        mayChange.value &&
        info.data !== null && (
          <button type="button" class="button" onClick={() => setAsks(true)}>
            {info.data.made === null ? 'Make it' : 'Rotate'}
          </button>
        )
      }
    >
      <ResourceView of={info} what="the secret’s age" lines={1}>
        {({ made }) =>
          made === null ? (
            <p class="muted small">There is none. Executions with a callback URL are refused.</p>
          ) : (
            <p class="small">
              Made <When at={made} />
            </p>
          )
        }
      </ResourceView>
      {asks && <RotateDialog id={id} isFirst={info.data?.made === null} onClose={close} />}
    </Panel>
  )
}

function RotateDialog({ id, isFirst, onClose }: { id: string; isFirst: boolean; onClose: () => void }) {
  const [made, setMade] = useState<Made | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<Failure | null>(null)
  const rotate = async (): Promise<void> => {
    setBusy(true)
    setFailure(null)
    try {
      setMade(await call<Made>('POST', tenantPath(id, 'callback-secret'), { body: {} }))
    } catch (error) {
      setFailure(asFailure(error))
      setBusy(false)
    }
  }
  if (made !== null)
    return (
      <Modal title="The callback secret" onClose={onClose}>
        <ShownOnce secret={made.secret} what="secret" onClose={onClose}>
          Callbacks are signed with it as Standard Webhooks says.
        </ShownOnce>
      </Modal>
    )
  return (
    <Modal title="Make a callback secret" onClose={onClose}>
      <div class="modal-body">
        <p>
          {isFirst
            ? 'Receivers check with it that a callback comes from here.'
            : 'The secret of now also signs for another 24 hours. Give receivers the new one until then.'}
        </p>
        {failure !== null && <Problem failure={failure} />}
        <div class="modal-actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="button" class="button primary" disabled={isBusy} onClick={() => void rotate()}>
            {isBusy ? 'Making' : 'Make it'}
          </button>
        </div>
      </div>
    </Modal>
  )
}
