import type { ExecutionState, Rerun } from '@cofferdam/client'
import { useMemo, useState } from 'preact/hooks'
import { createAskOnce } from '../../../api/ask-once.ts'
import { asFailure, type Failure } from '../../../api/failure.ts'
import { Modal } from '../../../parts/modal.tsx'
import { Problem } from '../../../parts/problem.tsx'
import { EditFields } from './edit-fields.tsx'
import { editOf } from './edit-of.ts'
import { isNotKept, NotKept } from './not-kept.tsx'
import { RerunAccepted } from './rerun-accepted.tsx'

type Stage = 'asking' | 'busy' | Rerun

/** Asks what to change, runs the execution again, and leads to the new one. */
export function RerunDialog(props: {
  state: ExecutionState
  onAccepted: (id: string) => void
  onClose: () => void
}) {
  const { execution_id: id, tenant_id: tenantId } = props.state
  const [stage, setStage] = useState<Stage>('asking')
  const [failure, setFailure] = useState<Failure | null>(null)
  const [missing, setMissing] = useState<readonly string[]>([])
  const ask = useMemo(createAskOnce, [id])
  const start = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    if (!(event.currentTarget instanceof HTMLFormElement) || stage === 'busy') return
    const edit = editOf(new FormData(event.currentTarget), missing)
    setStage('busy')
    setFailure(null)
    try {
      const rerun = await ask<Rerun>(`/v1/executions/${encodeURIComponent(id)}/rerun`, { edit })
      setStage(rerun)
      props.onAccepted(rerun.execution.execution_id)
    } catch (error) {
      const found = asFailure(error)
      const names = missingVariables(found)
      // The form then shows a field for each missing value, so the API’s message is not shown.
      if (names.length > 0) setMissing([...new Set([...missing, ...names])])
      else setFailure(found)
      setStage('asking')
    }
  }
  if (typeof stage === 'object')
    return (
      <Modal title="Run again" onClose={props.onClose}>
        <RerunAccepted rerun={stage} onClose={props.onClose} />
      </Modal>
    )
  if (failure !== null && isNotKept(failure))
    return (
      <Modal title="Run again" onClose={props.onClose}>
        <NotKept failure={failure} tenantId={tenantId} onClose={props.onClose} />
      </Modal>
    )
  return (
    <Modal title="Run again" onClose={props.onClose}>
      <form class="modal-body" onSubmit={(event) => void start(event)}>
        <p>
          A new execution gets the same request, with what you change here. Policy, caps and template of today
          apply, and it is charged like any other.
        </p>
        <EditFields missing={missing} />
        {failure !== null && <Problem failure={failure} />}
        <div class="modal-actions">
          <button type="button" class="button" onClick={props.onClose}>
            Do not run it
          </button>
          <button type="submit" class="button primary" disabled={stage === 'busy'}>
            {stage === 'busy' ? 'Asking' : 'Run again'}
          </button>
        </div>
      </form>
    </Modal>
  )
}

/** Variables whose values were not kept, as the API names them. */
function missingVariables({ code, details }: Failure): string[] {
  const names: unknown = details['missing_env']
  if (code !== 'invalid_request' || !Array.isArray(names)) return []
  return names.filter((name) => typeof name === 'string')
}
