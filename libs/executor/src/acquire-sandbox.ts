/**
 * Opens a sandbox on the first candidate that can. Falls back to the next one only here, before user code began,
 * and only for failures that another backend may not have (the error table's `retry: elsewhere`).
 */
import {
  isAtLeast,
  type Backend,
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
import {
  isFull,
  isMissingSession,
  isOfTheSession,
  MISSING_SESSION,
  refusalOf,
  saysNothingOfTheBackend,
  withoutRoom,
  type Refusal,
} from './open-failure.ts'
import type { ProbeCache } from './probe-cache.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'
import { nothingLeft, tooWeak, type Rejection, type Selection } from './select-backend.ts'

/** Opens that may fail before the attempt gives up: with three, an execution waits at most three open timeouts. */
const MAX_OPENS = 3
/** A cold image start or a microVM under emulation takes seconds; a minute means that it will not come. */
const OPEN_TIMEOUT_MS = 60_000

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
    const refusal = await unavailable(parts, backend, spec, signal)
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

/**
 * Asks policy, probe, circuit, then room: what is switched off is asked nothing, and who claims a circuit's trial or the question for room
 * must open next.
 */
async function unavailable(
  { probes, circuits, full, refuses }: AcquireParts,
  backend: Backend,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<Refusal | null> {
  const why = await unlessAborted(refuses(backend.name), signal)
  if (why !== null) return { reason: 'sandbox_disabled', detail: why }
  const probe = await probes.probe(backend, signal)
  if (!probe.ok) return { reason: 'backend_unavailable', detail: `cannot run here: ${probe.why}` }
  if (!circuits.tryEnter(backend.name))
    return { reason: 'circuit_open', detail: 'failed to open sandboxes lately and rests for some seconds' }
  const noRoom = mayHaveItsOwn(spec) ? null : full.refuses(backend.name)
  if (noRoom === null) return null
  circuits.abandoned(backend.name)
  return withoutRoom(noRoom)
}

async function tryOpen(
  parts: AcquireParts,
  backend: Backend,
  spec: SandboxSpec,
  memory: HoldOptions['memory'],
  minIsolation: Isolation,
  signal: AbortSignal,
): Promise<HeldSandbox | Refusal> {
  const { clock, circuits, full, probes } = parts
  const startedMs = clock.nowMs()
  try {
    const sandbox = await openBounded(parts, backend, spec, memory, signal)
    const held = holdSandbox(sandbox, { ...parts, memory, openMs: clock.nowMs() - startedMs })
    circuits.succeeded(backend.name)
    if (mayHaveItsOwn(spec)) full.moves(backend.name)
    else full.opened(backend.name)
    if (isAtLeast(sandbox.isolation, minIsolation)) return held
    // A backend of several rungs may have opened a weaker one than it stands for.
    await held.destroy()
    return tooWeak(sandbox.isolation, minIsolation)
  } catch (error) {
    if (isFull(error) && !signal.aborted) {
      circuits.abandoned(backend.name)
      return withoutRoom(full.foundFull(backend.name, error.message))
    }
    full.abandoned(backend.name)
    if (signal.aborted) circuits.abandoned(backend.name)
    signal.throwIfAborted()
    if (isMissingSession(error, spec)) {
      circuits.abandoned(backend.name)
      return MISSING_SESSION
    }
    if (isOfTheSession(error)) {
      circuits.abandoned(backend.name)
      throw new ProvisioningFailure(error.code, error.message, { cause: error })
    }
    const refusal = refusalOf(error)
    if (saysNothingOfTheBackend(refusal)) circuits.abandoned(backend.name)
    else {
      circuits.failed(backend.name)
      probes.forget(backend)
    }
    return refusal
  }
}

/** The sandbox of a session may be there already, and needs no room then; where it is not, the backend says so itself. */
const mayHaveItsOwn = ({ session }: SandboxSpec): boolean => session !== null

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
