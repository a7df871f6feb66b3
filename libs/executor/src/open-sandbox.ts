/** Opens a sandbox on one backend, and decides what a failure says about the backend. */
import {
  isAtLeast,
  isCofferdamError,
  unlessAborted,
  type Backend,
  type CofferdamError,
  type Isolation,
  type Sandbox,
  type SandboxSpec,
} from '@cofferdam/contract'
import type { Attempt, ExecutorParts } from './attempt.ts'
import { settlesWithin, withDeadline } from './clock.ts'
import type { NoRoom } from './full-backends.ts'
import { holdSandbox, LEAK_HOLD_MS, type HeldSandbox } from './held-sandbox.ts'
import type { MemoryLease } from './memory-budget.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'
import { tooWeak, type Rejection } from './select-backend.ts'

/** A cold image or a microVM under emulation takes seconds to start. After a minute it will not come. */
const OPEN_TIMEOUT_MS = 60_000

/** A rejection without the backend's name, which its reader knows. */
export type Refusal = Omit<Rejection, 'backend'>

export interface Opening {
  parts: ExecutorParts
  attempt: Attempt
  backend: Backend
  spec: SandboxSpec
  memory: MemoryLease
  minIsolation: Isolation
}

/**
 * Whether the sandbox may already exist, because a session can have one. Then it needs no capacity at the
 * vendor.
 */
export const mayExist = ({ session }: SandboxSpec): boolean => session !== null

/**
 * Returns the open sandbox, or why the backend is passed over. Throws errors that no other backend would
 * avoid.
 */
export async function tryOpen(opening: Opening): Promise<HeldSandbox | Refusal> {
  const { parts, backend, spec, minIsolation } = opening
  const { clock, circuits, full } = parts
  const startedMs = clock.nowMs()
  let held: HeldSandbox
  try {
    const sandbox = await openBounded(opening)
    held = hold(opening, sandbox, clock.nowMs() - startedMs)
  } catch (error) {
    return refusalAfter(error, opening)
  }
  circuits.succeeded(backend.name)
  // A session's sandbox may have existed before, so it does not show that there is free capacity.
  if (mayExist(spec)) full.moves(backend.name)
  else full.opened(backend.name)
  if (isAtLeast(held.sandbox.isolation, minIsolation)) return held
  // A backend with several isolation levels may have opened a weaker one.
  await held.destroy()
  return tooWeak(held.sandbox.isolation, minIsolation)
}

/** Opens within a time limit, even if the backend ignores its signal. Destroys a late sandbox. */
async function openBounded(opening: Opening): Promise<Sandbox> {
  const { parts, attempt, backend, spec, memory } = opening
  const timeout = new Error(`no sandbox within ${OPEN_TIMEOUT_MS} ms`)
  using bound = withDeadline(parts.clock, attempt.signal, OPEN_TIMEOUT_MS, timeout)
  // In an async function, so that a backend that throws at once rejects like any other.
  const opened = (async () => await backend.open(spec, bound.signal))()
  try {
    return await unlessAborted(opened, bound.signal)
  } catch (error) {
    if (bound.signal.aborted) {
      const destroyed = opened.then((sandbox) => hold(opening, sandbox, 0).destroy())
      memory.holdUntil(settlesWithin(parts.clock, LEAK_HOLD_MS, destroyed))
    }
    throw error
  }
}

function hold({ parts, attempt, memory }: Opening, sandbox: Sandbox, openMs: number): HeldSandbox {
  const { executionId, attempt: number } = attempt
  return holdSandbox(sandbox, {
    clock: parts.clock,
    proofMs: parts.disposeProofMs,
    memory,
    openMs,
    onLeaked({ ref }, why, ending) {
      parts.log.error({ err: why, ref, executionId, attempt: number }, 'a sandbox was not proven gone')
      parts.onLeaked({ ref, executionId, attempt: number, why, ending })
    },
  })
}

/** Records what the failure says about the backend, and returns why it is passed over. */
function refusalAfter(error: unknown, { parts, attempt, backend, spec }: Opening): Refusal {
  const { circuits, full, probes } = parts
  const { name } = backend
  if (isFull(error) && !attempt.signal.aborted) {
    circuits.abandoned(name)
    return withoutRoom(full.foundFull(name, error.message))
  }
  full.abandoned(name)
  const refusal = isMissingSession(error, spec) ? MISSING_SESSION : refusalOf(error)
  const isBackendsFault =
    !attempt.signal.aborted && !isAboutTheSession(error) && !ABOUT_THE_REQUEST.has(refusal.reason)
  if (isBackendsFault) {
    circuits.failed(name)
    probes.forget(backend)
  } else circuits.abandoned(name)
  attempt.signal.throwIfAborted()
  if (isAboutTheSession(error) && refusal !== MISSING_SESSION)
    throw new ProvisioningFailure(error.code, error.message, { cause: error })
  return refusal
}

/** The request does not fit, or the tenant is not provisioned. The backend may serve other requests well. */
const ABOUT_THE_REQUEST: ReadonlySet<string> = new Set(['capability_missing', 'interpreter_not_ready'])

const ABOUT_THE_SESSION: ReadonlySet<string> = new Set(['conflict', 'session_not_found', 'fenced'])

/**
 * The session exists but cannot be used (other limits, in use, owned by another worker), or it is required
 * and gone. Falling back would create a second session of the same name on another backend.
 */
const isAboutTheSession = (error: unknown): error is CofferdamError =>
  isCofferdamError(error) && ABOUT_THE_SESSION.has(error.code)

/** An execution that only continues a session looks for it on each of its backends. */
const isMissingSession = (error: unknown, { session }: SandboxSpec): boolean =>
  session?.mustExist === true && isCofferdamError(error) && error.code === 'session_not_found'

const MISSING_SESSION: Refusal = {
  reason: 'session_not_found',
  detail: 'has no session of this key (any more)',
}

/** The vendor has no capacity until another sandbox ends (contract: `open`). */
const isFull = (error: unknown): error is CofferdamError =>
  isCofferdamError(error) && error.code === 'backend_unavailable' && error.details['full'] === true

export const withoutRoom = ({ said, forTooLong }: NoRoom): Refusal =>
  forTooLong
    ? { reason: 'backend_unavailable', detail: `cannot run here: ${said}` }
    : { reason: 'backend_full', detail: `has no room: ${said}` }

function refusalOf(error: unknown): Refusal {
  if (!isCofferdamError(error)) {
    const name = error instanceof Error ? error.name : 'unknown error'
    return { reason: 'sandbox_open_failed', detail: `failed to open a sandbox (${name})` }
  }
  switch (error.code) {
    case 'capability_missing':
      return { reason: 'capability_missing', detail: error.message }
    case 'interpreter_not_ready':
      return { reason: 'interpreter_not_ready', detail: `is not ready: ${error.message}` }
    case 'backend_unavailable':
      return { reason: 'backend_unavailable', detail: `cannot run here: ${error.message}` }
    default:
      return { reason: 'sandbox_open_failed', detail: `failed to open a sandbox: ${error.message}` }
  }
}
