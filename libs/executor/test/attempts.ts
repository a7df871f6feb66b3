/** An executor over doubles, and complete attempts for it. */
import {
  StopReason,
  executionRequestSchema,
  newExecutionId,
  newWorkerId,
  type Backend,
  type ExecutionRequestInput,
  type StopCause,
  type TenantPolicy,
  DEFAULT_TENANT_RULES,
} from '@cofferdam/contract'
import {
  createExecutor,
  createMemoryBudget,
  type Attempt,
  type ExecutorDeps,
  type LeakedSandbox,
} from '../src/index.ts'
import { createMemoryBlobs, type MemoryBlobs } from './memory-blobs.ts'

export const MiB = 1024 * 1024

export function tenantOf(partial: Partial<TenantPolicy> = {}): TenantPolicy {
  return {
    tenant_id: 'acme',
    sandbox_enabled: true,
    compliance_tier: 'standard',
    min_isolation: 'none',
    environments: ['default-public'],
    retention_days: 30,
    redact: [],
    ...DEFAULT_TENANT_RULES,
    ...partial,
  }
}

export interface Harness {
  executor: ReturnType<typeof createExecutor>
  blobs: MemoryBlobs
  leaked: LeakedSandbox[]
  errors: string[]
}

export function harness(backends: Backend[], deps: Partial<ExecutorDeps> = {}): Harness {
  const blobs = createMemoryBlobs()
  const leaked: LeakedSandbox[] = []
  const errors: string[] = []
  const executor = createExecutor({
    backends: new Map(backends.map((backend) => [backend.name, backend])),
    order: backends.map((backend) => backend.name),
    blobs,
    memory: createMemoryBudget(1024 * MiB),
    log: { warn: () => {}, error: (_fields, message) => void errors.push(message) },
    onLeaked: (leak) => void leaked.push(leak),
    ...deps,
  })
  return { executor, blobs, leaked, errors }
}

export interface TestAttempt extends Attempt {
  text: { stdout: string; stderr: string }
  pieces: string[]
  notices: string[]
  begun: { backend: string; isolation: string }[]
  stop(cause: StopCause): void
}

export function attemptOf(
  request: Partial<ExecutionRequestInput> = {},
  partial: Partial<Attempt> = {},
): TestAttempt {
  const stopper = new AbortController()
  const text = { stdout: '', stderr: '' }
  const pieces: string[] = []
  const notices: string[] = []
  const begun: { backend: string; isolation: string }[] = []
  return {
    executionId: newExecutionId(),
    attempt: 1,
    request: executionRequestSchema.parse({
      tenant_id: 'acme',
      agent_id: 'a1',
      program: { type: 'script', language: 'python', source: 'print(1)' },
      ...request,
    }),
    tenant: tenantOf(),
    owner: newWorkerId('0123456789ab'),
    signal: stopper.signal,
    traceparent: null,
    onBegin: async (_ref, place) => void begun.push(place),
    onOutput: (stream, piece) => {
      text[stream] += piece
      pieces.push(piece)
    },
    onNotice: (message) => void notices.push(message),
    ...partial,
    text,
    pieces,
    notices,
    begun,
    stop: (cause) => stopper.abort(new StopReason(cause)),
  }
}
