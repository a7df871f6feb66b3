import type { Accepted, ExecutionResult } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { pageAddress, queryValue } from '../../address/address.ts'
import { call } from '../../api/call.ts'
import { asFailure, type Failure } from '../../api/failure.ts'
import { isAdmin } from '../../api/session.ts'
import { StandingDot } from '../../parts/standing-dot.tsx'
import { duration } from '../../words/figures.ts'

type Answer = ExecutionResult | Accepted

/** Runs a small program on a backend, as an ordinary execution of the tenant. */
export function BackendTest({ name }: { name: string }) {
  const [state, setState] = useState<'idle' | 'busy' | Answer | Failure>('idle')
  const tenant = queryValue('tenant')
  const needsTenant = isAdmin.value && tenant === null
  const run = async (): Promise<void> => {
    setState('busy')
    try {
      const body = tenant === null ? {} : { tenant_id: tenant }
      setState(await call<Answer>('POST', `/v1/backends/${encodeURIComponent(name)}/test`, { body }))
    } catch (error) {
      setState(asFailure(error))
    }
  }
  return (
    <>
      <span role="status" class="test-answer">
        {typeof state === 'object' && <TestAnswer answer={state} />}
      </span>
      <button
        type="button"
        class="button"
        disabled={needsTenant || state === 'busy'}
        title={needsTenant ? 'Choose a tenant at the top: the test counts against its caps.' : undefined}
        onClick={() => void run()}
      >
        {state === 'busy' ? 'Running' : 'Run a test'}
      </button>
    </>
  )
}

function TestAnswer({ answer }: { answer: Answer | Failure }) {
  if (answer instanceof Error) return <span class="tone-bad">{answer.message}</span>
  const link = pageAddress(`/executions/${answer.execution_id}`)
  if (!('ending' in answer)) return <a href={link}>It takes longer</a>
  return (
    <>
      <StandingDot status="ended" ending={answer.ending} />{' '}
      <a href={link}>in {duration(answer.duration_ms)}</a>
    </>
  )
}
