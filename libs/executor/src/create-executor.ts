/** Builds an executor: the parts that attempts share, and the calls that a worker makes. */
import {
  newSandboxId,
  type Backend,
  type BlobStore,
  type Capabilities,
  type ExecutionRequest,
  type Isolation,
  type Outcome,
  type Probe,
  type SandboxId,
} from '@cofferdam/contract'
import type { Egress } from '@cofferdam/egress'
import type { Attempt, ExecutorLog, ExecutorParts, ExecutorTimings, LeakedSandbox } from './attempt.ts'
import { createCircuitBreaker, type CircuitOptions, type CircuitState } from './circuit-breaker.ts'
import { createFullBackends } from './full-backends.ts'
import { systemClock, type Clock } from './clock.ts'
import { CANCEL_GRACE_MS } from './deadlines.ts'
import { execute } from './execute.ts'
import { DISPOSE_PROOF_MS } from './held-sandbox.ts'
import { hostMemory } from './host-memory.ts'
import type { MemoryBudget } from './memory-budget.ts'
import { createProbeCache } from './probe-cache.ts'

export interface ExecutorDeps {
  backends: ReadonlyMap<string, Backend>
  /** Candidates for `auto`, preferred first. Names must be in `backends`. */
  order: readonly string[]
  blobs: BlobStore
  /** Memory that all sandboxes of this executor may use together. Warm pools use the same budget. */
  memory: MemoryBudget
  /** Without it no execution has a network. */
  egress?: Egress
  clock?: Clock
  log?: ExecutorLog
  circuit?: CircuitOptions
  timings?: Partial<ExecutorTimings>
  newSandboxId?: () => SandboxId
  /** Called for each sandbox that was not proven gone in time. */
  onLeaked?: (leaked: LeakedSandbox) => void
}

export interface BackendReport {
  name: string
  isolation: Isolation
  probe: Probe
  capabilities: Capabilities
  /** `open`: its last sandboxes did not open, so it gets no executions for some seconds. */
  circuit: CircuitState
}

export interface RunningAttempt {
  /** Settles before the sandbox is gone, so that nobody waits for its destruction. */
  readonly outcome: Promise<Outcome>
  /**
   * Resolves when the sandbox is proven gone or reported as leaked. Its memory is then free. Only a
   * leaked sandbox holds its memory for up to LEAK_HOLD_MS. Never rejects.
   */
  readonly gone: Promise<void>
}

export interface Executor {
  /** Starts one attempt. Its slot is free only when `gone` resolves. `outcome` rejects like `execute`. */
  start(attempt: Attempt): RunningAttempt
  /**
   * Runs one attempt to its outcome. Program and backend failures are outcomes. Resolves when the sandbox is
   * proven gone, or reported as leaked. Rejects with `CofferdamError('fenced')` when another worker owns the
   * attempt, and with `StopReason('drain')` when it was drained before it began (requeue it then).
   */
  execute(attempt: Attempt): Promise<Outcome>
  /** What every backend reports about this host. Never rejects for a backend's failure. */
  probeAll(signal: AbortSignal): Promise<BackendReport[]>
  /** The backend's circuit now. */
  circuit(backend: string): CircuitState
  /** Bytes of the memory budget that a request uses while it runs. */
  hostMemory(request: Pick<ExecutionRequest, 'backend' | 'limits'>): number
  readonly running: number
  readonly memory: MemoryBudget
}

const SILENT: ExecutorLog = { warn: () => undefined, error: () => undefined }

/** Creates an executor over the caller's backends. Throws RangeError for an unknown name in `order`. */
export function createExecutor(deps: ExecutorDeps): Executor {
  const unknown = deps.order.filter((name) => !deps.backends.has(name))
  if (unknown.length > 0)
    throw new RangeError(`order names backends that are not there: ${unknown.join(', ')}`)

  const clock = deps.clock ?? systemClock
  const parts: ExecutorParts = {
    backends: deps.backends,
    order: deps.order,
    blobs: deps.blobs,
    memory: deps.memory,
    clock,
    probes: createProbeCache(clock),
    circuits: createCircuitBreaker(clock, deps.circuit),
    full: createFullBackends(clock),
    egress: deps.egress ?? null,
    log: deps.log ?? SILENT,
    newSandboxId: deps.newSandboxId ?? (() => newSandboxId()),
    onLeaked: deps.onLeaked ?? (() => undefined),
    cancelGraceMs: deps.timings?.cancelGraceMs ?? CANCEL_GRACE_MS,
    disposeProofMs: deps.timings?.disposeProofMs ?? DISPOSE_PROOF_MS,
  }
  let running = 0

  const counted = async (attempt: Attempt, onOutcome?: (outcome: Outcome) => void): Promise<Outcome> => {
    running += 1
    try {
      return await execute(parts, attempt, onOutcome)
    } finally {
      running -= 1
    }
  }

  return {
    execute: (attempt) => counted(attempt),
    start(attempt) {
      const { promise, resolve, reject } = Promise.withResolvers<Outcome>()
      return { outcome: promise, gone: counted(attempt, resolve).then(resolve, reject) }
    },
    probeAll: (signal) =>
      Promise.all(
        [...deps.backends.values()].map(async (backend) => ({
          name: backend.name,
          isolation: backend.isolation,
          probe: await parts.probes.probe(backend, signal),
          capabilities: backend.capabilities,
          circuit: parts.circuits.state(backend.name),
        })),
      ),
    circuit: (backend) => parts.circuits.state(backend),
    hostMemory: (request) => hostMemory(parts, request),
    get running() {
      return running
    },
    memory: parts.memory,
  }
}
