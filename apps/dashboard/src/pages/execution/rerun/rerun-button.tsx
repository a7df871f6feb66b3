import type { ExecutionState } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { RerunDialog } from './rerun-dialog.tsx'

/** Opens the dialog. `onAccepted` gets the ID of the new execution. */
export function RerunButton(props: { state: ExecutionState; onAccepted: (id: string) => void }) {
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
