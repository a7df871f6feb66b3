import { useState } from 'preact/hooks'
import { call } from '../../api/call.ts'
import { asFailure, type Failure } from '../../api/failure.ts'
import { Problem } from '../../parts/problem.tsx'

/** Runs a routine now, and turns its schedule on and off. */
export function RoutineActions(props: { path: string; enabled: boolean; onDone: () => void }) {
  const [failure, setFailure] = useState<Failure | null>(null)
  const [isBusy, setBusy] = useState(false)
  const change = async (method: 'POST' | 'PATCH', path: string, body: unknown): Promise<void> => {
    setBusy(true)
    setFailure(null)
    try {
      await call<unknown>(method, path, { body })
      props.onDone()
    } catch (error) {
      setFailure(asFailure(error))
    } finally {
      setBusy(false)
    }
  }
  return (
    <>
      {failure !== null && <Problem failure={failure} />}
      <button
        type="button"
        class="button"
        disabled={isBusy}
        onClick={() => void change('PATCH', props.path, { enabled: !props.enabled })}
      >
        {props.enabled ? 'Disable' : 'Enable'}
      </button>
      <button
        type="button"
        class="button primary"
        disabled={isBusy}
        onClick={() => void change('POST', `${props.path}/run`, {})}
      >
        Run now
      </button>
    </>
  )
}
