import type { ExecutionState } from '@cofferdam/client'
import { useEffect, useRef, useState } from 'preact/hooks'
import { pageAddress } from '../../address/address.ts'
import { asFailure, type Failure } from '../../api/failure.ts'
import { Panel } from '../../parts/panel.tsx'
import { Loading, Problem } from '../../parts/problem.tsx'
import { standing } from '../../words/endings.ts'
import { ArtifactPanel } from '../execution/artifacts/artifact-panel.tsx'
import { OutputPanel } from '../execution/output/output-panel.tsx'
import { useEvents } from '../execution/output/use-events.ts'
import { ValuePanel } from '../execution/result/value-panel.tsx'
import { UsagePanel } from '../execution/usage-panel.tsx'
import { useExecution } from '../execution/use-execution.ts'
import { ProgressLine, Verdict } from '../execution/verdict.tsx'
import { WhyPanel } from '../execution/why-panel.tsx'
import { cancelOne } from '../executions/cancel-many.ts'

/**
 * One run of the playground, live. `isNew`: it was started just now, so it is brought into view if it is far
 * down.
 */
export function RunView({ id, isNew }: { id: string; isNew: boolean }) {
  const [isEnded, setEnded] = useState(false)
  const view = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const top = view.current?.getBoundingClientRect().top ?? 0
    if (isNew && top > window.innerHeight / 2) view.current?.scrollIntoView()
  }, [])
  const state = useExecution(id, isEnded)
  if (state.data !== null && (state.data.status === 'ended') !== isEnded) setEnded(!isEnded)
  return (
    <div ref={view} class="stack run-view">
      {state.data !== null ? (
        <Run state={state.data} reload={state.reload} />
      ) : state.failure === null ? (
        <Panel title="Run">
          <Loading what="the run" lines={3} />
        </Panel>
      ) : (
        <Problem failure={state.failure} retry={state.reload} />
      )}
    </div>
  )
}

function Run({ state, reload }: { state: ExecutionState; reload: () => void }) {
  const { execution_id: id, status, result } = state
  const seen = useEvents(id, status !== 'ended', reload)
  const isRefused = result !== null && result.usage === null
  return (
    <>
      <Panel
        title="Run"
        aside={
          <>
            {status !== 'ended' && <CancelButton key={id} id={id} onDone={reload} />}
            <a href={pageAddress(`/executions/${encodeURIComponent(id)}`)} title={id}>
              Everything about it
            </a>
          </>
        }
      >
        <div class="run-verdict">
          <Verdict state={state} />
        </div>
        <p class="unseen" role="status">
          {standing(status, result?.ending ?? null).words}
        </p>
        <ProgressLine state={state} />
      </Panel>
      {!isRefused && <OutputPanel state={state} seen={seen} />}
      {result !== null && <ValuePanel result={result} />}
      {status !== 'running' && result?.ok !== true && <WhyPanel state={state} notices={seen.notices} />}
      {result !== null && (
        <>
          <ArtifactPanel result={result} />
          {!isRefused && <UsagePanel result={result} row={null} />}
        </>
      )}
    </>
  )
}

function CancelButton({ id, onDone }: { id: string; onDone: () => void }) {
  const [asked, setAsked] = useState<'no' | 'busy' | Failure>('no')
  const cancel = async (): Promise<void> => {
    setAsked('busy')
    try {
      await cancelOne(id, '')
      onDone()
    } catch (error) {
      setAsked(asFailure(error))
    }
  }
  return (
    <>
      {typeof asked === 'object' && <span role="alert">{asked.message}</span>}
      <button type="button" class="button danger" disabled={asked === 'busy'} onClick={() => void cancel()}>
        {asked === 'busy' ? 'Cancelling' : 'Cancel'}
      </button>
    </>
  )
}
