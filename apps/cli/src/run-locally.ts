/**
 * `run --local`: executor and backends in this process, without queue, caps or audit. Policy is the one that every new
 * tenant gets, so nothing weaker than a jail is used.
 */
import { randomBytes } from 'node:crypto'
import { createBackends } from '@cofferdam/backends'
import {
  composeAttempt,
  newExecutionId,
  newWorkerId,
  StopReason,
  type ExecutionRequest,
  type ExecutionResult,
} from '@cofferdam/contract'
import { createEgress } from '@cofferdam/egress'
import { createExecutor, createMemoryBudget } from '@cofferdam/executor'
import { defaultPolicy } from '@cofferdam/store'
import type { Context } from './command.ts'
import { workerSettings } from './local-backends.ts'
import { progressBar } from './progress-bar.ts'
import { createMemoryBlobs } from './memory-blobs.ts'
import { readBlob, type SaveArtifact } from './save-artifacts.ts'

const MiB = 1_048_576

/** Runs one request to its result; a Ctrl-C cancels it. */
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
      onBegin: (_, place) => {
        terminal.progress(`running on ${place.backend} (${place.isolation}) …`)
        return Promise.resolve()
      },
      onOutput: (stream, text) => terminal.program(stream, text),
      onProgress: ({ fraction, message }) => terminal.progress(progressBar(fraction, message)),
      onNotice: (message) => terminal.note(message),
    })
    terminal.progress(null)
    if (save !== null)
      for (const artifact of outcome.artifacts) await save(artifact.path, await readBlob(blobs, artifact.ref))
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
