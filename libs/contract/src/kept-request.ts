/**
 * What is kept of a request so that its program can be run again. It lies in the blob store, encrypted if
 * there is a key, and is deleted together with full outputs.
 */
import { z } from 'zod'
import { isRunSessionKey } from './session-key.ts'
import type { ExecutionRequest } from './request.ts'

/**
 * What happens to each field. `secret`: its values are kept only if the request is stored encrypted, but its
 * names are always kept. `once`: it belongs to the one call that sent it, and a rerun must not repeat it.
 */
const FIELDS = {
  tenant_id: 'kept',
  agent_id: 'kept',
  user_id: 'kept',
  run_id: 'kept',
  template_id: 'kept',
  program: 'kept',
  stdin: 'kept',
  files: 'kept',
  env: 'secret',
  artifacts: 'kept',
  session: 'kept',
  limits: 'kept',
  network: 'kept',
  environment: 'kept',
  backend: 'kept',
  min_isolation: 'kept',
  reuse: 'kept',
  preload: 'kept',
  lane: 'kept',
  priority: 'kept',
  on_cap: 'kept',
  retry: 'kept',
  checkpoint: 'kept',
  workspace: 'kept',
  idempotency_key: 'once',
  tool_call_id: 'once',
  delay_ms: 'once',
  callback_url: 'once',
  invocation_source: 'once',
  traceparent: 'once',
  rerun_of: 'once',
} as const satisfies Record<keyof ExecutionRequest, 'kept' | 'secret' | 'once'>

/**
 * The `once` fields whose loss a caller of a rerun is told about. The other `once` fields do not change what
 * the program does.
 */
const TOLD = ['callback_url', 'delay_ms'] as const

export const keptRequestSchema = z.strictObject({
  version: z.literal(1),
  /** Checked as an execution request when it is run again, by the schema of that time. */
  request: z.record(z.string(), z.unknown()),
  /** Variables whose values are not in `request`. */
  env_names: z.array(z.string()),
  not_copied: z.array(z.enum(TOLD)),
})
export type KeptRequest = z.output<typeof keptRequestSchema>

/** `isSealed`: the kept request is stored encrypted, so it may contain secret values. */
export function keptRequestOf(asked: ExecutionRequest, isSealed: boolean): KeptRequest {
  const request = Object.fromEntries(
    Object.entries(withoutRunSession(asked)).filter(([name, value]) => {
      // A field that only a newer release knows is not in FIELDS, so it is left out.
      const fate = new Map(Object.entries(FIELDS)).get(name)
      return value !== undefined && (fate === 'kept' || (fate === 'secret' && isSealed))
    }),
  )
  return {
    version: 1,
    request,
    env_names: isSealed ? [] : Object.keys(asked.env ?? {}),
    not_copied: TOLD.filter((name) => asked[name] !== undefined),
  }
}

/**
 * Removes the session of a run, which the tenant's policy added. A rerun gets it again if the policy at that
 * time says so.
 */
function withoutRunSession(request: ExecutionRequest): ExecutionRequest {
  if (request.session === undefined || !isRunSessionKey(request.session.key)) return request
  const { session: _session, reuse: _reuse, ...rest } = request
  return rest as ExecutionRequest
}
