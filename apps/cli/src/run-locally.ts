/**
 * `run --local`: executor and backends in this process, without queue, caps or audit. The policy is that of a
 * new tenant, so no backend weaker than a jail is used.
 */
import { randomBytes } from 'node:crypto'
import { createBackends } from '@cofferdam/backends'
import {
  type BlobStore,
  composeAttempt,
  type ExecutionRequest,
  type ExecutionResult,
  newExecutionId,
  newWorkerId,
  StopReason,
} from '@cofferdam/contract'
import { createEgress } from '@cofferdam/egress'
import { createExecutor, createMemoryBudget } from '@cofferdam/executor'
import { defaultPolicy } from '@cofferdam/store'
import type { Context } from './command.ts'
import { workerSettings } from './local-backends.ts'
import { progressBar } from './terminal.ts'

const MiB = 1_048_576

export type SaveArtifact = (name: string, bytes: Uint8Array) => Promise<void>

/** Runs one request to its result. Ctrl-C cancels it. */
export async function runLocally(
  request: ExecutionRequest,
  context: Context,
  save: SaveArtifact | null,
): Promise<ExecutionResult> {
  const { terminal, stop } = context
  const settings = workerSettings(context.config.environment)
  const backends = await createBackends(settings.backends)
  const cancel = new AbortController()
  const onStop = () => cancel.abort(new StopReason('cancelled', 'cancelled on the command line'))
  stop.addEventListener('abort', onStop)
  if (stop.aborted) onStop()
  try {
    const blobs = createMemoryBlobs()
    await using egress = createEgress({ config: settings.egress })
    const executor = createExecutor({
      backends,
      order: [...backends.keys()],
      blobs,
      egress,
      memory: createMemoryBudget(settings.memoryBudgetMib * MiB),
    })
    const executionId = newExecutionId()
    const policy = defaultPolicy(request.tenant_id)
    const startedAtMs = Date.now()
    terminal.progress('opening a sandbox …')
    const outcome = await executor.execute({
      executionId,
      attempt: 1,
      request,
      tenant: policy,
      owner: newWorkerId(randomBytes(6).toString('hex')),
      signal: cancel.signal,
      traceparent: request.traceparent ?? null,
      onBegin: async (_, { backend, isolation }) => {
        terminal.progress(`running on ${backend} (${isolation}) …`)
      },
      onOutput: (stream, text) => terminal.program(stream, text),
      onProgress: ({ fraction, message }) => terminal.progress(progressBar(fraction, message)),
      onNotice: (message) => terminal.note(message),
    })
    terminal.progress(null)
    if (save !== null)
      for (const { path, ref } of outcome.artifacts) {
        const found = await blobs.read(ref)
        if (found !== null) await save(path, found.bytes)
      }
    const { result } = composeAttempt({
      executionId,
      attempt: 1,
      request,
      outcome,
      enqueuedAtMs: startedAtMs,
      startedAtMs,
      finishedAtMs: Date.now(),
      traceId: null,
      retentionDays: policy.retention_days,
      caps: null,
      chargedAtMs: null,
    })
    return result
  } finally {
    terminal.progress(null)
    stop.removeEventListener('abort', onStop)
    for (const backend of backends.values()) await backend[Symbol.asyncDispose]()
  }
}

/**
 * Blobs of one local run, in memory: two outputs of at most 16 MiB each (BOUNDS), and at most 16 MiB of
 * artifacts.
 */
function createMemoryBlobs(): BlobStore {
  const blobs = new Map<string, Buffer>()
  return {
    async create(key) {
      const chunks: Uint8Array[] = []
      const ref = `${key.executionId}/${key.attempt}/${key.name}`
      return {
        async write(chunk) {
          chunks.push(Uint8Array.from(chunk))
        },
        async commit() {
          blobs.set(ref, Buffer.concat(chunks))
          return ref
        },
        async abort() {
          chunks.length = 0
        },
      }
    },
    async read(ref, range) {
      const whole = blobs.get(ref)
      if (whole === undefined) return null
      return {
        bytes: range === undefined ? whole : whole.subarray(range.start, range.end),
        total: whole.length,
      }
    },
    async delete(ref) {
      blobs.delete(ref)
    },
  }
}
