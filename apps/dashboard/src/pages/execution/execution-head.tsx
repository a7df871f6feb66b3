import type { ExecutionState } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { mayChange } from '../../api/session.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { ExecutionLink } from '../../parts/execution-link.tsx'
import { PageHead } from '../../parts/page-head.tsx'
import { StandingDot } from '../../parts/standing-dot.tsx'
import { now } from '../../parts/when.tsx'
import { duration } from '../../words/figures.ts'
import { CancelDialog } from '../executions/cancel-dialog.tsx'
import { previewOf } from '../executions/cancel-actions.tsx'
import { cancelMany } from '../executions/cancel-many.ts'
import { liveRow } from '../executions/row.ts'
import { curlOf } from './curl.ts'
import { plainText } from './output/ansi.ts'
import { RerunButton } from './rerun/rerun-button.tsx'

/** How it stands, in one line, and what can be done with it. */
export function ExecutionHead({ state, reload }: { state: ExecutionState; reload: () => void }) {
  const [cancels, setCancels] = useState(false)
  const [again, setAgain] = useState<string | null>(null)
  const { execution_id: id, result } = state
  const isLive = state.status !== 'ended'
  return (
    <>
      <PageHead title={`…${id.slice(-8)}`}>
        <CopyButton text={id} label="Copy the ID">
          Copy ID
        </CopyButton>
        <CopyButton text={curlOf(window.location.origin, id)} label="Copy a curl command that reads it">
          Copy as curl
        </CopyButton>
        {!isLive && mayChange.value && <RerunButton state={state} onAccepted={setAgain} />}
        {isLive && mayChange.value && (
          <button type="button" class="button danger" onClick={() => setCancels(true)}>
            Cancel
          </button>
        )}
      </PageHead>
      <div class="verdict">
        <StandingDot status={state.status} ending={result?.ending ?? null} />
        <Times state={state} />
        {result !== null && result.exit_code !== null && <span>exit {result.exit_code}</span>}
        {result !== null && result.signal !== null && <span>{result.signal}</span>}
        {state.attempt > 1 && <span class="badge">attempt {state.attempt}</span>}
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
      {isLive && state.progress !== undefined && (
        <div class="progress-line">
          <progress aria-label="Progress" value={state.progress.fraction} max={1} />
          <span>
            {Math.round(state.progress.fraction * 100)} % {plainText(state.progress.message)}
          </span>
        </div>
      )}
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

/** How long it waited and ran, or waits and runs. */
function Times({ state }: { state: ExecutionState }) {
  const { result } = state
  const enqueued = Date.parse(state.enqueued_at)
  if (result !== null)
    return (
      <span>
        waited {duration(result.queue_ms)}, ran {duration(result.duration_ms)}
      </span>
    )
  if (state.started_at === null)
    return (
      <span>
        for {duration(now.value - enqueued)}
        {state.position !== null && `, place ${state.position + 1} in the queue`}
        {state.eta_ms !== null && `, about ${duration(state.eta_ms)} to go`}
      </span>
    )
  const started = Date.parse(state.started_at)
  return (
    <span>
      waited {duration(started - enqueued)}, runs for {duration(now.value - started)}
    </span>
  )
}
