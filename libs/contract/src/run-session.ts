/**
 * The session that an execution is given for its run, where its tenant's policy says so (`run_sessions`).
 * Nobody asked for it, so it must never be the reason for a refusal: an execution that cannot have it runs
 * in a sandbox of its own.
 */
import type { ExecutionRequest } from './request.ts'
import { isRunSessionKey, runSessionKey } from './session-key.ts'

type Asked = Pick<ExecutionRequest, 'agent_id' | 'run_id' | 'session' | 'reuse' | 'program'>

/** Whether a request can be given the session of its run: it names a run, and says nothing of sessions. */
export const canHaveRunSession = ({ run_id, session, reuse }: Asked): boolean =>
  run_id !== undefined && session === undefined && reuse === undefined

/** The request in the session of its run, or as it is when `canHaveRunSession` is false. */
export function withRunSession(request: ExecutionRequest): ExecutionRequest {
  if (request.run_id === undefined || !canHaveRunSession(request)) return request
  const key = runSessionKey(request.agent_id, request.run_id)
  return { ...request, session: { key, scope: 'files' } }
}

/** Whether the request was given the session of its run. What is done with a session's files asked for it. */
export const hasRunSession = ({ session, program }: Pick<ExecutionRequest, 'session' | 'program'>): boolean =>
  session !== undefined && program.type !== 'files' && isRunSessionKey(session.key)

/** The request for a sandbox of its own. */
export function withoutSession(request: ExecutionRequest): ExecutionRequest {
  const { session: _session, ...rest } = request
  return { ...rest, reuse: 'job' }
}
