import type { ExecutionState } from '@cofferdam/client'
import { StandingDot } from '../../parts/standing-dot.tsx'
import { now } from '../../parts/when.tsx'
import { duration } from '../../words/figures.ts'
import { withoutEscapes } from './output/ansi.ts'

/** The state of an execution in one line. */
export function Verdict({ state }: { state: ExecutionState }) {
  const { result } = state
  return (
    <>
      <StandingDot status={state.status} ending={result?.ending ?? null} />
      <Times state={state} />
      {result !== null && result.exit_code !== null && <span>exit {result.exit_code}</span>}
      {result !== null && result.signal !== null && <span>{result.signal}</span>}
      {state.attempt > 1 && <span class="badge">attempt {state.attempt}</span>}
    </>
  )
}

/** The progress of a live execution, if it reports any. */
export function ProgressLine({ state: { status, progress } }: { state: ExecutionState }) {
  if (status === 'ended' || progress === undefined) return null
  return (
    <div class="progress-line">
      <progress aria-label="Progress" value={progress.fraction} max={1} />
      <span>
        {Math.round(progress.fraction * 100)} % {withoutEscapes(progress.message)}
      </span>
    </div>
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
