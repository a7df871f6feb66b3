/**
 * Decides which backends may run a request, and gives the reason for each that may not. Pure:
 * acquire-sandbox.ts checks availability (probe, circuit) later, one backend at a time.
 *
 * The required isolation is the stronger of what tenant and request ask for. Nothing lowers it: a caller's
 * `min_isolation` can only raise it, and fallback uses the same filtered list. So a backend of isolation
 * `none`, or a plain `process`, is used only if the tenant's own policy allows it, and an emulated machine
 * only with its `allow_emulation`.
 */
import {
  isAtLeast,
  missingCapabilities,
  preloadOf,
  reuseOf,
  strongest,
  type Backend,
  type ExecutionRequest,
  type Isolation,
  type Network,
  type TenantPolicy,
} from '@cofferdam/contract'
import { isTask, TASK_CARRIER } from '@cofferdam/tasks'
import { ProvisioningFailure } from './provisioning-failure.ts'

export type RejectionReason =
  | 'backend_full'
  | 'capability_missing'
  | 'isolation_unavailable'
  | 'backend_unavailable'
  | 'sandbox_disabled'
  | 'circuit_open'
  | 'interpreter_not_ready'
  | 'sandbox_open_failed'
  | 'session_not_found'

export interface Rejection {
  backend: string
  reason: RejectionReason
  /** Why the backend may not run the request, as public text. */
  detail: string
}

export interface Choice {
  backend: Backend
  /** Why the backend may not run the request. Null for a candidate. */
  refusal: Omit<Rejection, 'backend'> | null
}

export interface Selection {
  /** In the order in which to try them. */
  choices: Choice[]
  minIsolation: Isolation
}

export interface Selectable {
  backends: ReadonlyMap<string, Backend>
  /** Candidates for `auto`, preferred first. */
  order: readonly string[]
}

/**
 * Judges each backend that the request allows: the named one, or all for `auto`. `network` is the request's
 * network after the tenant's policy narrowed it.
 * Throws a provisioning failure if the request names a backend that does not exist.
 */
export function selectBackends(
  { backends, order }: Selectable,
  request: ExecutionRequest,
  tenant: TenantPolicy,
  network: Network,
): Selection {
  const minIsolation = strongest(tenant.min_isolation, request.min_isolation ?? 'none')
  const choices = named(backends, order, request.backend).map((backend) => ({
    backend,
    refusal: refuse(backend, request, tenant, network, minIsolation),
  }))
  return { choices, minIsolation }
}

function named(backends: Selectable['backends'], order: readonly string[], wanted: string): Backend[] {
  if (wanted === 'auto') return order.map((name) => backends.get(name)).filter((b) => b !== undefined)
  const backend = backends.get(wanted)
  if (backend !== undefined) return [backend]
  const known = [...backends.keys()].join(', ') || 'none'
  throw new ProvisioningFailure(
    'backend_unknown',
    `There is no backend "${wanted}" on this worker. Known: ${known}.`,
  )
}

function refuse(
  backend: Backend,
  request: ExecutionRequest,
  tenant: TenantPolicy,
  network: Network,
  minIsolation: Isolation,
): Choice['refusal'] {
  const { program } = request
  const takesFiles = isTask(program) || program.type === 'files'
  const missing = missingCapabilities(backend.capabilities, {
    program: isTask(program) ? TASK_CARRIER : program,
    network,
    stdin: request.stdin !== undefined,
    files: takesFiles || (request.files ?? []).length > 0 || request.workspace !== undefined,
    artifacts: (request.artifacts ?? []).length > 0 || request.workspace !== undefined,
    reuse: reuseOf(request),
    sessionScope: request.session?.scope ?? null,
    preload: preloadOf(request),
    cpuTime: request.limits.cpu_time_ms !== undefined,
    hardTimeoutMs: request.limits.hard_timeout_ms,
    heartbeat: request.limits.heartbeat_timeout_ms !== undefined,
  })
  if (missing.length > 0)
    return { reason: 'capability_missing', detail: `does not offer ${missing.join(', ')}` }
  if (!isAtLeast(backend.isolation, minIsolation)) return tooWeak(backend.isolation, minIsolation)
  return tenant.allow_emulation ? null : emulated(backend.isolation)
}

/** An emulated machine is no boundary of security, so only the tenant's policy can allow it. */
function emulated(isolation: Isolation): Choice['refusal'] {
  if (isolation !== 'microvm-emulated') return null
  return {
    reason: 'isolation_unavailable',
    detail: 'only emulates a machine, which the policy allows with allow_emulation',
  }
}

export function tooWeak(actual: Isolation, required: Isolation): Omit<Rejection, 'backend'> {
  return {
    reason: 'isolation_unavailable',
    detail: `isolates by ${actual}, but the policy requires at least ${required}`,
  }
}

/**
 * The failure when no candidate is left. It names the reason that is nearest to success and has the details
 * of all backends.
 */
export function nothingLeft(rejections: readonly Rejection[]): ProvisioningFailure {
  const nearest = NEAREST_FIRST.find((reason) => rejections.some((r) => r.reason === reason))
  const lines = rejections.map((r) => `${r.backend} ${r.detail.replace(/\.$/, '')}`)
  return new ProvisioningFailure(
    nearest === 'circuit_open' ? 'backend_unavailable' : (nearest ?? 'backend_unavailable'),
    lines.length === 0
      ? 'No backend is configured on this worker.'
      : `No backend can run this: ${lines.join('; ')}.`,
  )
}

const NEAREST_FIRST: readonly RejectionReason[] = [
  // A full backend is nearest to success, because it will have capacity again.
  'backend_full',
  'session_not_found',
  'sandbox_open_failed',
  'interpreter_not_ready',
  'circuit_open',
  'backend_unavailable',
  'sandbox_disabled',
  'isolation_unavailable',
  'capability_missing',
]
