import type { ReadableTenant, UsageNow } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { call } from '../../api/call.ts'
import { asFailure, type Failure } from '../../api/failure.ts'
import { Modal } from '../../parts/modal.tsx'
import { Problem } from '../../parts/problem.tsx'
import { count } from '../../words/figures.ts'
import { CancelDialog } from '../executions/cancel-dialog.tsx'
import { cancelTenant } from '../executions/cancel-many.ts'
import { loadWords, tenantPath, type Load } from './tenant.ts'
import { UndoStopDialog } from './undo-stop-dialog.tsx'

interface Props {
  id: string
  tenant: ReadableTenant
  usage: UsageNow | null
  load: Load | null
  /** Called when the dialog opens that shows usage and load, so that both are read again. */
  onAsk: () => void
  onDone: () => void
}

/** Lets nothing of a tenant start any more, offers to cancel what waits and runs, and undoes the stop. */
export function KillSwitch(props: Props) {
  const [open, setOpen] = useState<'stop' | 'cancel' | 'undo' | null>(null)
  const isStopped = props.tenant.caps.tenant_daily === 0
  const ask = (): void => {
    props.onAsk()
    setOpen('stop')
  }
  const close = (): void => {
    setOpen(null)
    props.onDone()
  }
  return (
    <>
      {isStopped && (
        <button type="button" class="button danger" onClick={() => setOpen('cancel')}>
          Cancel what waits and runs
        </button>
      )}
      {isStopped ? (
        <button type="button" class="button" onClick={() => setOpen('undo')}>
          Undo the stop
        </button>
      ) : (
        <button type="button" class="button danger solid" onClick={ask}>
          Stop this tenant
        </button>
      )}
      {open === 'stop' && (
        <StopDialog
          {...props}
          onStopped={() => {
            setOpen('cancel')
            props.onDone()
          }}
          onClose={close}
        />
      )}
      {open === 'cancel' && (
        <CancelDialog
          title="Cancel what waits and runs"
          preview={
            `${props.id} is stopped: nothing of it starts any more. What it has waiting will not run, and ` +
            'what runs will be told to stop. The output so far is kept.'
          }
          total={null}
          run={(reason, tell, signal) => cancelTenant(props.id, undefined, reason, tell, signal)}
          onClose={close}
        />
      )}
      {open === 'undo' && <UndoStopDialog id={props.id} onClose={close} />}
    </>
  )
}

/** Asks for the tenant’s name, so that nobody stops another one by a slip. */
function StopDialog({
  id,
  usage,
  load,
  onStopped,
  onClose,
}: Props & { onStopped: () => void; onClose: () => void }) {
  const [typed, setTyped] = useState('')
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<Failure | null>(null)
  const stop = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    if (typed !== id || isBusy) return
    setBusy(true)
    setFailure(null)
    try {
      await call<unknown>('PATCH', tenantPath(id, 'caps'), { body: { tenant_daily: 0 } })
      onStopped()
    } catch (error) {
      setFailure(asFailure(error))
      setBusy(false)
    }
  }
  const used =
    usage === null ? '' : `${count(usage.tenant_daily.used)} of ${count(usage.tenant_daily.limit)} used today`
  const now = [used, loadWords(load)].filter((words) => words !== '')
  return (
    <Modal title={`Stop ${id}`} onClose={onClose}>
      <form class="modal-body" onSubmit={(event) => void stop(event)}>
        <p>
          Its daily cap becomes 0: nothing of it starts any more. What runs goes on, unless you cancel it in
          the next step. You can undo the stop here.
        </p>
        {now.length > 0 && <p>Now: {now.join('; ')}.</p>}
        <label class="field">
          <span>
            Type <strong>{id}</strong> to confirm
          </span>
          <input
            value={typed}
            autocomplete="off"
            spellcheck={false}
            maxLength={128}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        {failure !== null && <Problem failure={failure} />}
        <div class="modal-actions">
          <button type="button" class="button" onClick={onClose}>
            Let it run
          </button>
          <button type="submit" class="button danger solid" disabled={typed !== id || isBusy}>
            {isBusy ? 'Stopping' : 'Stop it'}
          </button>
        </div>
      </form>
    </Modal>
  )
}
