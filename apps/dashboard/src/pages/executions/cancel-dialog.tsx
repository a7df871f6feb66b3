import { useEffect, useRef, useState } from 'preact/hooks'
import { asFailure, type Failure } from '../../api/failure.ts'
import { Modal } from '../../parts/modal.tsx'
import { Problem } from '../../parts/problem.tsx'
import { counted } from '../../words/figures.ts'
import { NOTHING_DONE, type Progress } from './cancel-many.ts'

/** Says what a cancellation will do, asks for a reason, carries it out, and shows its progress. */
export function CancelDialog(props: {
  title: string
  /** What will happen, before it does. */
  preview: string
  /** How many executions will be cancelled. Null if nobody knows. */
  total: number | null
  run: (reason: string, tell: (progress: Progress) => void, signal: AbortSignal) => Promise<void>
  onClose: () => void
}) {
  const [stage, setStage] = useState<'asking' | 'busy' | 'done'>('asking')
  const [progress, setProgress] = useState(NOTHING_DONE)
  const [failure, setFailure] = useState<Failure | null>(null)
  const stop = useRef(new AbortController())
  useEffect(() => () => stop.current.abort(), [])
  const start = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    const form = event.currentTarget
    const field = form instanceof HTMLFormElement ? new FormData(form).get('reason') : null
    const reason = typeof field === 'string' ? field : ''
    setStage('busy')
    try {
      await props.run(reason.trim(), setProgress, stop.current.signal)
    } catch (error) {
      setFailure(asFailure(error))
    }
    setStage('done')
  }
  return (
    <Modal title={props.title} onClose={props.onClose}>
      <form class="modal-body" onSubmit={(event) => void start(event)}>
        <p>{props.preview}</p>
        {stage === 'asking' ? (
          <label class="field">
            Reason, for the results and the audit
            <input name="reason" maxLength={200} autocomplete="off" placeholder="Optional" />
          </label>
        ) : (
          <Done progress={progress} total={props.total} isBusy={stage === 'busy'} />
        )}
        {failure !== null && <Problem failure={failure} />}
        {failure === null && progress.failure !== null && <Problem failure={progress.failure} />}
        <div class="modal-actions">
          <button type="button" class="button" onClick={props.onClose}>
            {stage === 'busy' ? 'Stop here' : stage === 'done' ? 'Close' : 'Keep them'}
          </button>
          {stage === 'asking' && (
            <button type="submit" class="button danger">
              {props.title}
            </button>
          )}
        </div>
      </form>
    </Modal>
  )
}

function Done(props: { progress: Progress; total: number | null; isBusy: boolean }) {
  const { progress, total } = props
  const parts = [
    `${counted(progress.cancelled, 'execution')} cancelled`,
    progress.cancelling > 0 && `${progress.cancelling} told to stop`,
    progress.ended > 0 && `${progress.ended} had ended before`,
    progress.failed > 0 && `${progress.failed} failed`,
  ].filter((part) => part !== false)
  return (
    <>
      {total === null ? (
        <progress aria-label="Cancelled" {...(props.isBusy ? {} : { value: 1, max: 1 })} />
      ) : (
        <progress aria-label="Cancelled" value={progress.done} max={total} />
      )}
      <p role="status">{parts.join(' · ')}</p>
    </>
  )
}
