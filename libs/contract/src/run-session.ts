/**
 * The session of a run, which all executions of the run share if the tenant's policy has `run_sessions`. The
 * request did not ask for it, so it must never cause a refusal: an execution that cannot have it gets its own
 * sandbox.
 */
import type { ExecutionRequest } from './request.ts'
import { isRunSessionKey, runSessionKey } from './session-key.ts'

type Asked = Pick<ExecutionRequest, 'agent_id' | 'run_id' | 'session' | 'reuse' | 'program'>

/** Whether a request can get the session of its run: it names a run, but no `session` and no `reuse`. */
export const canHaveRunSession = ({ run_id, session, reuse }: Asked): boolean =>
  run_id !== undefined && session === undefined && reuse === undefined

/** The request with the session of its run, or unchanged if `canHaveRunSession` is false. */
export function withRunSession(request: ExecutionRequest): ExecutionRequest {
  if (request.run_id === undefined || !canHaveRunSession(request)) return request
  const key = runSessionKey(request.agent_id, request.run_id)
  return { ...request, session: { key, scope: 'files' } }
}

/** Whether the request got the session of its run. False for `files` programs, which name one themselves. */
export const hasRunSession = ({ session, program }: Pick<ExecutionRequest, 'session' | 'program'>): boolean =>
  session !== undefined && program.type !== 'files' && isRunSessionKey(session.key)

export function withoutSession(request: ExecutionRequest): ExecutionRequest {
  const { session: _session, ...rest } = request
  return { ...rest, reuse: 'job' }
}
