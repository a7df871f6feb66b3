/**
 * Opens a sandbox on the first candidate that can. Falls back to the next one only here, before user code began,
 * and only for failures that another backend may not have (the error table's `retry: elsewhere`).
 */
import {
  isAtLeast,
  isCofferdamError,
  type Backend,
  type CofferdamError,
  type Isolation,
  type Sandbox,
  type SandboxSpec,
  unlessAborted,
} from '@cofferdam/contract'
import { withDeadline } from './with-deadline.ts'
import type { CircuitBreaker } from './circuit-breaker.ts'
import { settlesWithin, type Clock } from './clock.ts'
import type { FullBackends } from './full-backends.ts'
import { LEAK_HOLD_MS, holdSandbox, type HeldSandbox, type HoldOptions } from './held-sandbox.ts'
import type { ProbeCache } from './probe-cache.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'
import {
  nothingLeft,
  tooWeak,
  type Rejection,
  type RejectionReason,
  type Selection,
} from './select-backend.ts'

/** Opens that may fail before the attempt gives up: with three, an execution waits at most three open timeouts. */
const MAX_OPENS = 3
/** A cold image start or a microVM under emulation takes seconds; a minute means that it will not come. */
const OPEN_TIMEOUT_MS = 60_000

/** It is the request that does not fit, or the tenant that is not provisioned: other requests may well be served. */
const SAYS_NOTHING_OF_THE_BACKEND: ReadonlySet<string> = new Set<RejectionReason>([
  'capability_missing',
  'interpreter_not_ready',
  'backend_full',
])

export interface AcquireParts extends Pick<HoldOptions, 'proofMs' | 'onLeaked'> {
  clock: Clock
  probes: ProbeCache
  circuits: CircuitBreaker
  full: FullBackends
  /** Why the attempt may not use the backend; null when it may. */
  refuses(this: void, backend: string): Promise<string | null>
  /** Hears of each candidate that could not be used, in order. */
  onPassedOver(rejection: Rejection): void
}

/** Returns the open sandbox, owned. Throws a provisioning failure that names every backend and why not. */
export async function acquireSandbox(
  parts: AcquireParts,
  selection: Selection,
  spec: SandboxSpec,
  memory: HoldOptions['memory'],
  signal: AbortSignal,
): Promise<HeldSandbox> {
  const rejections = [...selection.rejections]
  const passOver = (rejection: Rejection): void => {
    rejections.push(rejection)
    parts.onPassedOver(rejection)
  }
  let opens = 0
  for (const backend of selection.candidates) {
    if (opens === MAX_OPENS) break
    const refusal = await unavailable(parts, backend, signal)
    if (refusal !== null) {
      passOver({ backend: backend.name, ...refusal })
      continue
    }
    opens += 1
    const opened = await tryOpen(parts, backend, spec, memory, selection.minIsolation, signal)
    if (!('reason' in opened)) return opened
    passOver({ backend: backend.name, ...opened })
  }
  throw nothingLeft(rejections)
}

type Refusal = Omit<Rejection, 'backend'>

/** Asks policy, probe, then circuit: what is switched off is asked nothing, and a circuit's trial must be claimed only when the open follows. */
async function unavailable(
  { probes, circuits, refuses }: AcquireParts,
  backend: Backend,
  signal: AbortSignal,
): Promise<Refusal | null> {
  const why = await unlessAborted(refuses(backend.name), signal)
  if (why !== null) return { reason: 'sandbox_disabled', detail: why }
  const probe = await probes.probe(backend, signal)
  if (!probe.ok) return { reason: 'backend_unavailable', detail: `cannot run here: ${probe.why}` }
  if (circuits.tryEnter(backend.name)) return null
  return { reason: 'circuit_open', detail: 'failed to open sandboxes lately and rests for some seconds' }
}

async function tryOpen(
  parts: AcquireParts,
  backend: Backend,
  spec: SandboxSpec,
  memory: HoldOptions['memory'],
  minIsolation: Isolation,
  signal: AbortSignal,
): Promise<HeldSandbox | Refusal> {
  const { clock, circuits, probes } = parts
  const startedMs = clock.nowMs()
  try {
    const sandbox = await openBounded(parts, backend, spec, memory, signal)
    const held = holdSandbox(sandbox, { ...parts, memory, openMs: clock.nowMs() - startedMs })
    circuits.succeeded(backend.name)
    parts.full.opened(backend.name)
    if (isAtLeast(sandbox.isolation, minIsolation)) return held
    // A backend of several rungs may have opened a weaker one than it stands for.
    await held.destroy()
    return tooWeak(sandbox.isolation, minIsolation)
  } catch (error) {
    if (signal.aborted) circuits.abandoned(backend.name)
    signal.throwIfAborted()
    if (isOfTheSession(error)) {
      circuits.abandoned(backend.name)
      throw new ProvisioningFailure(error.code, error.message, { cause: error })
    }
    const refusal = isFull(error) && parts.full.foundFull(backend.name) ? noRoom(error) : refusalOf(error)
    if (SAYS_NOTHING_OF_THE_BACKEND.has(refusal.reason)) circuits.abandoned(backend.name)
    else {
      circuits.failed(backend.name)
      probes.forget(backend)
    }
    return refusal
  }
}

const OF_THE_SESSION: ReadonlySet<string> = new Set(['conflict', 'not_found', 'fenced'])

/**
 * The session is there and cannot be had like this (other limits, in use, another worker's meanwhile), or is asked for and gone: no
 * other backend has it, and it says nothing of this one. Falling back would make a second session of the same name.
 */
const isOfTheSession = (error: unknown): error is CofferdamError =>
  isCofferdamError(error) && OF_THE_SESSION.has(error.code)

/** The vendor takes no more for now, and will when something ends (contract: `open`). */
const isFull = (error: unknown): error is CofferdamError =>
  isCofferdamError(error) && error.code === 'backend_unavailable' && error.details['full'] === true

const noRoom = (error: CofferdamError): Refusal => ({
  reason: 'backend_full',
  detail: `has no room: ${error.message}`,
})

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

/** Opens within a bound, also when the backend ignores its signal: a sandbox that comes too late is destroyed. */
async function openBounded(
  parts: AcquireParts,
  backend: Backend,
  spec: SandboxSpec,
  memory: HoldOptions['memory'],
  signal: AbortSignal,
): Promise<Sandbox> {
  const timeout = (): Error => new Error(`no sandbox within ${OPEN_TIMEOUT_MS} ms`)
  using bound = withDeadline(parts.clock, signal, OPEN_TIMEOUT_MS, timeout)
  const opening = open(backend, spec, bound.signal)
  try {
    return await unlessAborted(opening, bound.signal)
  } catch (error) {
    if (bound.signal.aborted)
      memory.holdUntil(settlesWithin(parts.clock, LEAK_HOLD_MS, destroyLate(parts, opening, memory)))
    throw error
  }
}

async function open(backend: Backend, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
  return await backend.open(spec, signal)
}

async function destroyLate(
  parts: AcquireParts,
  opening: Promise<Sandbox>,
  memory: HoldOptions['memory'],
): Promise<void> {
  const sandbox = await opening.catch(() => null)
  if (sandbox !== null) await holdSandbox(sandbox, { ...parts, memory, openMs: 0 }).destroy()
}
