import { preloadOf, reuseOf, type SandboxSpec } from '@cofferdam/contract'
import { isTask, TASK_CARRIER } from '@cofferdam/tasks'
import type { Attempt, ExecutorParts } from './attempt.ts'
import { programEnvironment } from './environment.ts'
import type { WayOut } from './execution-egress.ts'

/** The sandbox that an attempt needs, under a new id; a notice tells which variables of the request it does not get. */
export function specOf(
  parts: Pick<ExecutorParts, 'newSandboxId'>,
  attempt: Attempt,
  traceparent: string | null,
  { network, environment }: Pick<WayOut, 'network' | 'environment'>,
): SandboxSpec {
  const { request } = attempt
  const { env, dropped } = programEnvironment(request.env ?? {}, traceparent)
  if (dropped.length > 0)
    attempt.onNotice?.(
      `Left out of the environment, for they change how programs start: ${dropped.join(', ')}.`,
    )
  return {
    sandboxId: parts.newSandboxId(),
    executionId: attempt.executionId,
    attempt: attempt.attempt,
    tenantId: request.tenant_id,
    owner: attempt.owner,
    program: isTask(request.program) ? TASK_CARRIER : request.program,
    limits: request.limits,
    network,
    env: { ...environment, ...env },
    preload: preloadOf(request),
    reuse: reuseOf(request),
    session: sessionOf(request),
  }
}

function sessionOf({ session }: Attempt['request']): SandboxSpec['session'] {
  return session === undefined
    ? null
    : {
        key: session.key,
        scope: session.scope,
        idleMs: session.idle_ms ?? null,
        mustExist: session.must_exist ?? false,
      }
}
