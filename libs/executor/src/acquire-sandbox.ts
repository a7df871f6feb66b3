/**
 * Acquires a sandbox from the first backend that can open one. Falls back to the next backend only here,
 * before user code began, and only after failures that another backend may not have (`retry: elsewhere`).
 */
import {
  hasRunSession,
  preloadOf,
  reuseOf,
  unlessAborted,
  withoutSession,
  type Backend,
  type ExecutionRequest,
  type SandboxSpec,
} from '@cofferdam/contract'
import { isTask, TASK_CARRIER } from '@cofferdam/tasks'
import type { AttemptState } from './attempt-state.ts'
import { programEnvironment } from './environment.ts'
import type { WayOut } from './execution-egress.ts'
import { placeAttributes, placeOf, type HeldSandbox } from './held-sandbox.ts'
import type { MemoryLease } from './memory-budget.ts'
import { mayExist, tryOpen, withoutRoom, type Refusal } from './open-sandbox.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'
import { nothingLeft, selectBackends, type Rejection } from './select-backend.ts'
import { ATTRIBUTE, EVENT, SPAN } from './spans.ts'

/** Opens that may fail before the attempt gives up: an execution waits at most three open timeouts. */
const MAX_OPENS = 3

/**
 * Opens a sandbox, which the caller must dispose of. If the execution has a session of its run and no backend
 * can provide it (other limits, no sessions, no free slot), the execution gets a sandbox of its own and a
 * notice with the reason. Throws a provisioning failure that names each backend that was passed over, and
 * why.
 */
export async function acquireSandbox(
  state: AttemptState,
  wayOut: WayOut,
  memory: MemoryLease,
): Promise<HeldSandbox> {
  const { request, onNotice } = state.attempt
  try {
    return await acquireFor(request, state, wayOut, memory)
  } catch (error) {
    if (!hasRunSession(request) || !(error instanceof ProvisioningFailure)) throw error
    const held = await acquireFor(withoutSession(request), state, wayOut, memory)
    onNotice(`Runs in a sandbox of its own, not in the session of its run: ${error.message}`)
    return held
  }
}

async function acquireFor(
  request: ExecutionRequest,
  state: AttemptState,
  wayOut: WayOut,
  memory: MemoryLease,
): Promise<HeldSandbox> {
  const { parts, attempt, spans } = state
  const { choices, minIsolation } = selectBackends(parts, request, attempt.tenant, wayOut.network)
  const rejections: Rejection[] = []
  const spec = specOf(request, state, wayOut)
  return await spans.within(SPAN.acquire, async (span) => {
    const passOver = (rejection: Rejection): void => {
      const { backend, reason } = rejection
      rejections.push(rejection)
      state.passedOver.push({ backend, reason })
      span.addEvent(EVENT.passedOver, { [ATTRIBUTE.backend]: backend, [ATTRIBUTE.reason]: reason })
    }
    let opens = 0
    for (const { backend, refusal: unfit } of choices) {
      if (opens === MAX_OPENS && unfit === null) continue
      let refusal = unfit ?? (await unavailable(state, backend, spec))
      if (refusal === null) {
        opens += 1
        const opened = await tryOpen({ parts, attempt, backend, spec, memory, minIsolation })
        if (!('reason' in opened)) {
          state.place = placeOf(opened)
          span.setAttributes(placeAttributes(opened.sandbox))
          spans.run.setAttributes(placeAttributes(opened.sandbox))
          return opened
        }
        refusal = opened
      }
      passOver({ backend: backend.name, ...refusal })
    }
    throw nothingLeft(rejections)
  })
}

/**
 * Checks whether the backend is switched off, the probe, the circuit and the vendor's capacity, in this
 * order. A backend that is switched off is not probed. The circuit and the capacity come last because each
 * may claim a right: to try a half-open circuit, or to ask the vendor again. Whoever claims one must go on to
 * open a sandbox.
 */
async function unavailable(
  { parts: { probes, circuits, full }, attempt }: AttemptState,
  backend: Backend,
  spec: SandboxSpec,
): Promise<Refusal | null> {
  const { signal, refusesBackend } = attempt
  const why = await unlessAborted(Promise.resolve(refusesBackend?.(backend.name) ?? null), signal)
  if (why !== null) return { reason: 'sandbox_disabled', detail: why }
  const probe = await probes.probe(backend, signal)
  if (!probe.ok) return { reason: 'backend_unavailable', detail: `cannot run here: ${probe.why}` }
  if (!circuits.tryEnter(backend.name))
    return { reason: 'circuit_open', detail: 'failed to open sandboxes lately and rests for some seconds' }
  const noRoom = mayExist(spec) ? null : full.refuses(backend.name)
  if (noRoom === null) return null
  circuits.abandoned(backend.name)
  return withoutRoom(noRoom)
}

/** The spec of the sandbox, with a new ID. A notice names the variables that the program does not get. */
function specOf(
  request: ExecutionRequest,
  { parts, attempt, spans }: AttemptState,
  { network, environment }: WayOut,
): SandboxSpec {
  const { program, session } = request
  const { env, dropped } = programEnvironment(request.env ?? {}, spans.traceparent)
  if (dropped.length > 0)
    attempt.onNotice(
      `Left out of the environment, because they change how programs start: ${dropped.join(', ')}.`,
    )
  return {
    sandboxId: parts.newSandboxId(),
    executionId: attempt.executionId,
    attempt: attempt.attempt,
    tenantId: request.tenant_id,
    owner: attempt.owner,
    program: isTask(program) ? TASK_CARRIER : program,
    limits: request.limits,
    network,
    env: { ...environment, ...env },
    preload: preloadOf(request),
    reuse: reuseOf(request),
    session:
      session === undefined
        ? null
        : {
            key: session.key,
            scope: session.scope,
            idleMs: session.idle_ms ?? null,
            mustExist: session.must_exist ?? false,
          },
  }
}
