/** Records collections of a session's files as a worker would, with blobs in the store. */
import { createHash } from 'node:crypto'
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  type Artifact,
  type ExecutionId,
  type Outcome,
  type Program,
} from '@cofferdam/contract'
import type { Store } from '@cofferdam/store'

export interface SampleCollection {
  /** Default `acme`. */
  tenant?: string
  /** Default `sesn_1`. */
  run?: string
  /** Content by path. */
  files: Record<string, string | Uint8Array>
  /** Default: collects `.session/outputs`. */
  program?: Program
  /** Default: now. */
  atMs?: number
  /** Default 30. */
  retentionDays?: number
  /** Default false. */
  encrypt?: boolean
  outcome?: Partial<Outcome>
}

/** Records one collection. Returns its execution ID. */
export async function recordCollection(store: Store, sample: SampleCollection): Promise<ExecutionId> {
  const { tenant = 'acme', run = 'sesn_1', atMs = Date.now(), encrypt = false } = sample
  const executionId = newExecutionId(atMs)
  const program = sample.program ?? { type: 'files', op: 'collect', path: '.session/outputs' }
  const artifacts: (Artifact & { ref: string })[] = []
  for (const [path, content] of Object.entries(sample.files)) {
    const bytes = Buffer.from(content as string)
    const key = { tenantId: tenant, executionId, attempt: 1, name: `artifacts/${path}`, encrypt }
    const sink = await store.blobs.create(key)
    await sink.write(bytes)
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    artifacts.push({ path, size: bytes.length, sha256, ref: await sink.commit() })
  }
  await store.record(
    composeAttempt({
      executionId,
      attempt: 1,
      request: executionRequestSchema.parse({
        tenant_id: tenant,
        agent_id: 'agent-1',
        run_id: run,
        program,
        session: { key: run },
      }),
      outcome: {
        ...outcomeWithoutRun('ok', '', ''),
        reason: null,
        failureReason: null,
        backend: 'fake',
        isolation: 'none',
        artifacts,
        ...(program.type === 'files' && program.op === 'collect'
          ? { collectedFrom: program.path ?? '' }
          : {}),
        ...sample.outcome,
      },
      enqueuedAtMs: atMs,
      startedAtMs: atMs,
      finishedAtMs: atMs + 1000,
      traceId: null,
      retentionDays: sample.retentionDays ?? 30,
      caps: null,
      chargedAtMs: null,
      encryptOutputs: encrypt,
    }),
  )
  return executionId
}
