import type { Rerun } from '@cofferdam/client'
import { useEffect, useRef } from 'preact/hooks'
import { pageAddress } from '../../../address/address.ts'

/** The new execution, and what differs from the first time although nobody edited it. */
export function RerunAccepted({ rerun, onClose }: { rerun: Rerun; onClose: () => void }) {
  const { execution_id: id } = rerun.execution
  const link = useRef<HTMLAnchorElement>(null)
  useEffect(() => link.current?.focus(), [])
  return (
    <div class="modal-body">
      <p role="status">
        It was accepted as <code title={id}>…{id.slice(-8)}</code>. Its page compares both when it has ended.
      </p>
      {rerun.notes.length > 0 && (
        <ul class="rerun-notes">
          {rerun.notes.map(({ code, text }) => (
            <li key={code}>
              {text} <code class="muted">{code}</code>
            </li>
          ))}
        </ul>
      )}
      <div class="modal-actions">
        <button type="button" class="button" onClick={onClose}>
          Stay here
        </button>
        <a ref={link} class="button primary" href={pageAddress(`/executions/${encodeURIComponent(id)}`)}>
          Open the new execution
        </a>
      </div>
    </div>
  )
}
