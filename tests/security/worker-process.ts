/**
 * A worker process around one backend, in which the attacks run. target.ts starts it as root, as a plain
 * user, or where the kernel refuses user namespaces. It takes requests over the IPC channel and reports
 * outcomes.
 */
import { availableParallelism } from 'node:os'
import { createEgress, egressConfigSchema } from '@cofferdam/egress'
import { createMemoryBudget } from '@cofferdam/executor'
import {
  executionRequestSchema,
  newExecutionId,
  newWorkerId,
  StopReason,
  type Capabilities,
  type ExecutionRequestInput,
  type Outcome,
  type Probe,
  type SandboxRef,
  type StopCause,
  DEFAULT_TENANT_RULES,
} from '@cofferdam/contract'
import type { z } from 'zod'
import { createBackends } from '../../libs/backends/src/create-backends.ts'
import { createRefillGate, warmConfigSchema, type WarmDeps } from '../../libs/sandbox/src/warm/index.ts'
import { createExecutor } from '../../libs/executor/src/index.ts'
import { createBlobStore } from '../../libs/store/src/blobs/blob-store.ts'
import { createLocalPlace } from '../../libs/store/src/blobs/local-place.ts'
import { createOutputKeys } from '../../libs/store/src/output-keys.ts'

export interface WorkerSettings {
  backend: 'docker' | 'gvisor' | 'microvm' | 'process' | 'none'
  /** The backend's section of the configuration. */
  section: Record<string, unknown>
  /** The `warm` section. Null for a backend used by itself: every execution cold, cells without a budget. */
  warm: z.input<typeof warmConfigSchema> | null
  /** The `egress` section. Null for a worker that offers no network. */
  egress: z.input<typeof egressConfigSchema> | null
  blobDir: string
  fleet: string
}

export type ToWorker =
  | { kind: 'start'; id: number; request: Partial<ExecutionRequestInput> }
  | { kind: 'stop'; id: number; cause: StopCause }
  | { kind: 'close' }

export type FromWorker =
  | { kind: 'ready'; probe: Probe; owner: string; capabilities: Capabilities }
  | { kind: 'began'; id: number; ref: SandboxRef }
  | { kind: 'output'; id: number; text: string }
  | { kind: 'outcome'; id: number; outcome: Outcome; notices: string[]; ms: number }
  | { kind: 'gone'; id: number; leaked: string[] }
  | { kind: 'failed'; id: number; message: string }

/** The first probe of virtual machines may boot one, which takes minutes on a busy host. */
const PROBE_MS = 300_000
/** Live text per execution that is sent over the channel. The outcome has the rest. */
const TOLD_MAX = 16 * 1024

const tell = (message: FromWorker): void => void process.send?.(message)

const settings = JSON.parse(process.argv[2] ?? '') as WorkerSettings
const owner = newWorkerId(settings.fleet)
const memory = createMemoryBudget(4 * 1024 ** 3)
const warm: WarmDeps | null =
  settings.warm === null
    ? null
    : {
        owner,
        memory,
        refillGate: createRefillGate(availableParallelism()),
        config: warmConfigSchema.parse(settings.warm),
      }
const backends = await createBackends({ [settings.backend]: settings.section }, warm === null ? {} : { warm })
const leaked: string[] = []
const executor = createExecutor({
  backends,
  order: [settings.backend],
  blobs: createBlobStore(await createLocalPlace(settings.blobDir), createOutputKeys([])),
  memory,
  ...(settings.egress === null
    ? {}
    : { egress: createEgress({ config: egressConfigSchema.parse(settings.egress) }) }),
  onLeaked: ({ why }) => void leaked.push(String(why instanceof Error ? why.stack : why)),
})
const stoppers = new Map<number, AbortController>()

async function run(id: number, partial: Partial<ExecutionRequestInput>): Promise<void> {
  const stopper = new AbortController()
  stoppers.set(id, stopper)
  const notices: string[] = []
  let told = 0
  let beganAt = performance.now()
  try {
    const request = executionRequestSchema.parse({ tenant_id: 'mallory', agent_id: 'a', ...partial })
    const running = executor.start({
      executionId: newExecutionId(),
      attempt: 1,
      request,
      tenant: {
        tenant_id: request.tenant_id,
        sandbox_enabled: true,
        compliance_tier: 'standard',
        min_isolation: settings.backend === 'none' ? 'none' : 'process',
        environments: ['default-public'],
        retention_days: 1,
        redact: [],
        ...DEFAULT_TENANT_RULES,
        allow_emulation: true,
      },
      owner,
      signal: stopper.signal,
      traceparent: null,
      onBegin: async (ref) => {
        beganAt = performance.now()
        tell({ kind: 'began', id, ref })
      },
      onOutput: (_stream, text) => {
        if (told > TOLD_MAX) return
        told += text.length
        tell({ kind: 'output', id, text: text.slice(0, TOLD_MAX) })
      },
      onNotice: (message) => void notices.push(message),
    })
    const outcome = await running.outcome
    tell({ kind: 'outcome', id, outcome, notices, ms: performance.now() - beganAt })
    await running.gone
    tell({ kind: 'gone', id, leaked: leaked.splice(0) })
  } catch (error) {
    tell({ kind: 'failed', id, message: String(error) })
  } finally {
    stoppers.delete(id)
  }
}

process.on('message', (message: ToWorker) => {
  switch (message.kind) {
    case 'start':
      return void run(message.id, message.request)
    case 'stop':
      return stoppers.get(message.id)?.abort(new StopReason(message.cause))
    case 'close':
      void Promise.allSettled([...backends.values()].map((backend) => backend[Symbol.asyncDispose]())).then(
        () => process.exit(0),
      )
  }
})
process.on('disconnect', () => process.exit(0))

const backend = backends.get(settings.backend)
if (backend === undefined) throw new Error('no backend')
const probe = await backend.probe(AbortSignal.timeout(PROBE_MS))
if (probe.ok && warm !== null) backend.prewarm?.()
tell({ kind: 'ready', probe, owner, capabilities: backend.capabilities })
