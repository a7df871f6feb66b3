/** Ended executions in the store of a scene, with their request, as a worker leaves them. */
import {
  composeAttempt,
  executionRequestSchema,
  keptRequestOf,
  newExecutionId,
  outcomeWithoutRun,
  type ExecutionId,
  type Outcome,
} from '@cofferdam/contract'
import type { Store } from '@cofferdam/store'
import { execution } from './scene.ts'

export interface Ended {
  /** Fields of the request besides those of `execution`. Its source is `first run` by default. */
  request?: object
  outcome?: Partial<Outcome>
  isKept?: boolean
  isSealed?: boolean
  templateId?: string
  startedAtMs?: number
}

export const text = (value: string) => ({ text: value, bytes: value.length, truncated: false, ref: null })

/** Stores an ended execution. Returns its ID, and the reference of its request if that was kept. */
export async function keptExecution(
  store: Store,
  { request: more = {}, outcome = {}, isKept = true, isSealed = false, ...rest }: Ended = {},
): Promise<{ id: ExecutionId; ref: string | null }> {
  const id = newExecutionId()
  const request = executionRequestSchema.parse(execution('first run', more))
  const startedAtMs = rest.startedAtMs ?? Date.now()
  const record = composeAttempt({
    executionId: id,
    attempt: 1,
    request: { ...request, template_id: rest.templateId ?? request.template_id },
    outcome: {
      ...outcomeWithoutRun('error', 'exit', 'The program exited with code 3.'),
      backend: 'fake',
      isolation: 'none',
      began: true,
      exitCode: 3,
      ...outcome,
    },
    enqueuedAtMs: startedAtMs,
    startedAtMs,
    finishedAtMs: startedAtMs + 40,
    traceId: null,
    retentionDays: 30,
    caps: null,
    chargedAtMs: null,
  })
  const key = { tenantId: request.tenant_id, executionId: id, attempt: 1, name: 'request', encrypt: isSealed }
  const sink = isKept ? await store.blobs.create(key) : null
  await sink?.write(Buffer.from(JSON.stringify(keptRequestOf(request, isSealed))))
  const ref = (await sink?.commit()) ?? null
  await store.record({ ...record, ...(ref === null ? {} : { requestRef: ref }) })
  return { id, ref }
}
