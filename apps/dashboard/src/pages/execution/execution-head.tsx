import type { ExecutionState } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { RerunDialog } from './rerun/rerun-dialog.tsx'
import { mayChange } from '../../api/session.ts'
import { CopyAs } from '../../parts/copy-as/copy-as.tsx'
import { CopyButton } from '../../parts/copy-button.tsx'
import { ExecutionLink } from '../../parts/execution-link.tsx'
import { PageHead } from '../../parts/page-head.tsx'
import { CancelDialog } from '../executions/cancel-dialog.tsx'
import { previewOf } from '../executions/cancel-actions.tsx'
import { cancelMany } from '../executions/cancel-many.ts'
import { liveRow } from '../executions/row.ts'
import { ProgressLine, Verdict } from './verdict.tsx'

/** The state of the execution in one line, and the actions that are possible. */
export function ExecutionHead({ state, reload }: { state: ExecutionState; reload: () => void }) {
  const [cancels, setCancels] = useState(false)
  const [again, setAgain] = useState<string | null>(null)
  const { execution_id: id } = state
  const isLive = state.status !== 'ended'
  return (
    <>
      <PageHead title={`…${id.slice(-8)}`}>
        <CopyButton text={id} label="Copy the ID">
          Copy ID
        </CopyButton>
        <CopyAs asked={() => ({ read: id })} />
        {!isLive && mayChange.value && <RerunButton state={state} onAccepted={setAgain} />}
        {isLive && mayChange.value && (
          <button type="button" class="button danger" onClick={() => setCancels(true)}>
            Cancel
          </button>
        )}
      </PageHead>
      <div class="verdict">
        <Verdict state={state} />
        {state.rerun_of !== undefined && (
          <span>
            runs <ExecutionLink id={state.rerun_of} /> again
          </span>
        )}
        {again !== null && (
          <span role="status">
            run again as <ExecutionLink id={again} />
          </span>
        )}
      </div>
      <ProgressLine state={state} />
      {cancels && (
        <CancelDialog
          title="Cancel execution"
          preview={previewOf([liveRow(state)])}
          total={1}
          run={(reason, tell, signal) => cancelMany([id], reason, tell, signal)}
          onClose={() => {
            setCancels(false)
            reload()
          }}
        />
      )}
    </>
  )
}

/** Opens the dialog. `onAccepted` gets the ID of the new execution. */
function RerunButton(props: { state: ExecutionState; onAccepted: (id: string) => void }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <button type="button" class="button" onClick={() => setOpen(true)}>
        Run again
      </button>
      {isOpen && (
        <RerunDialog state={props.state} onAccepted={props.onAccepted} onClose={() => setOpen(false)} />
      )}
    </>
  )
}
