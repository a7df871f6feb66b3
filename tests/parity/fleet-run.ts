/**
 * Runs the same program through the executor and a backend, without the queue. Collects the raw bytes of the
 * backend and what a caller sees.
 */
import { setMaxListeners } from 'node:events'
import { mkdtempSync, chmodSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { createBackends } from '@cofferdam/backends'
import {
  executionRequestSchema,
  newExecutionId,
  newWorkerId,
  type Backend,
  type BlobStore,
  type Outcome,
  type Sandbox,
  type TenantPolicy,
  DEFAULT_TENANT_RULES,
} from '@cofferdam/contract'
import { createExecutor, createMemoryBudget } from '@cofferdam/executor'
import type { Ran, TestProgram } from './bare-run.ts'
import { LIMITS, PYTHON } from './run-limits.ts'

export type BackendName = 'process' | 'docker' | 'microvm' | 'none'

export interface FleetRan extends Ran {
  outcome: Outcome
}

export interface FleetRunner extends AsyncDisposable {
  run(program: TestProgram, timeoutMs: number): Promise<FleetRan>
}

const TENANT: TenantPolicy = {
  tenant_id: 'parity',
  sandbox_enabled: true,
  compliance_tier: 'standard',
  min_isolation: 'none',
  environments: ['default-public'],
  retention_days: 30,
  redact: [],
  ...DEFAULT_TENANT_RULES,
  allow_emulation: true,
}

/** On a busy machine an emulated kernel takes minutes to boot. */
const PROBE_MS = 400_000

/** The comparison reads the backend's raw bytes, so no full output needs to be stored. */
const NO_BLOBS: BlobStore = {
  create: () =>
    Promise.resolve({
      write: () => Promise.resolve(),
      commit: () => Promise.resolve('none'),
      abort: () => Promise.resolve(),
    }),
  read: () => Promise.resolve(null),
  delete: () => Promise.resolve(),
}

/** Creates an executor over one backend. Throws when the backend cannot run here. */
export async function createFleetRunner(name: BackendName): Promise<FleetRunner> {
  const runtimeDir = mkdtempSync(join(tmpdir(), 'cofferdam-parity-'))
  chmodSync(runtimeDir, 0o755)
  const host = { runtime_dir: runtimeDir, python: PYTHON, cgroups: false }
  const config = {
    process: { process: { ...host, jail: 'bwrap' as const } },
    docker: { docker: {} },
    // Uses the default runtime_dir, which has a template: scripts/machine-parts.ts tried this backend before
    // the tests.
    microvm: { microvm: {} },
    none: { none: host },
  }
  const backends = await createBackends(config[name])
  const seen = new Map<string, { stdout: Uint8Array[]; stderr: Uint8Array[] }>()
  const executor = createExecutor({
    backends: new Map([...backends].map(([key, backend]) => [key, tapped(backend, seen)])),
    order: [name],
    blobs: NO_BLOBS,
    memory: createMemoryBudget(8 * LIMITS.memory_mib * 1024 * 1024),
  })
  const owner = newWorkerId('0123456789ab')
  const dispose = async (): Promise<void> => {
    for (const backend of backends.values()) await backend[Symbol.asyncDispose]()
    rmSync(runtimeDir, { recursive: true, force: true })
  }
  for (const { probe } of await executor.probeAll(AbortSignal.timeout(PROBE_MS)))
    if (!probe.ok) {
      await dispose()
      throw new Error(`${name} cannot run here: ${probe.why}`)
    }
  return {
    async run({ language, source, stdin, argv }, timeoutMs) {
      const executionId = newExecutionId()
      const request = executionRequestSchema.parse({
        tenant_id: 'parity',
        agent_id: 'parity',
        backend: name,
        program: { type: 'script', language, source, ...(argv === undefined ? {} : { argv: [...argv] }) },
        ...(stdin === undefined ? {} : { stdin }),
        limits: { ...LIMITS, hard_timeout_ms: timeoutMs, soft_timeout_ms: timeoutMs },
      })
      const stopper = new AbortController()
      setMaxListeners(0, stopper.signal)
      const chunks = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
      seen.set(executionId, chunks)
      try {
        const outcome = await executor.execute({
          executionId,
          attempt: 1,
          request,
          tenant: TENANT,
          owner,
          signal: stopper.signal,
          traceparent: null,
          onBegin: () => Promise.resolve(),
          onOutput: () => {},
        })
        const timedOut = outcome.ending === 'hard_timeout' || outcome.ending === 'soft_timeout'
        const { exitCode, signal } = outcome
        const [stdout, stderr] = [Buffer.concat(chunks.stdout), Buffer.concat(chunks.stderr)]
        return { exitCode, signal, stdout, stderr, timedOut, outcome }
      } finally {
        seen.delete(executionId)
      }
    },
    [Symbol.asyncDispose]: dispose,
  }
}

/** The backend, with a copy of every raw byte that its programs write. */
function tapped(
  backend: Backend,
  seen: ReadonlyMap<string, { stdout: Uint8Array[]; stderr: Uint8Array[] }>,
): Backend {
  return {
    name: backend.name,
    isolation: backend.isolation,
    capabilities: backend.capabilities,
    probe: (signal) => backend.probe(signal),
    async open(spec, signal) {
      const sandbox = await backend.open(spec, signal).catch((error: unknown) => {
        // The result only says that it failed, so print the error.
        console.error(inspect(error, { depth: 4 }))
        throw error
      })
      return tappedSandbox(sandbox, (stream, chunk) => seen.get(spec.executionId)?.[stream].push(chunk))
    },
    kill: (ref) => backend.kill(ref),
    sweep: (worker) => backend.sweep(worker),
    owners: () => backend.owners(),
    [Symbol.asyncDispose]: () => backend[Symbol.asyncDispose](),
  }
}

function tappedSandbox(
  sandbox: Sandbox,
  copy: (stream: 'stdout' | 'stderr', chunk: Uint8Array) => void,
): Sandbox {
  return {
    id: sandbox.id,
    ref: sandbox.ref,
    isolation: sandbox.isolation,
    warm: sandbox.warm,
    session: sandbox.session,
    write: (files) => sandbox.write(files),
    run: (program, io) =>
      sandbox.run(program, {
        ...io,
        onOutput(stream, chunk) {
          copy(stream, Buffer.from(chunk))
          return io.onOutput(stream, chunk)
        },
      }),
    interrupt: () => sandbox.interrupt(),
    read: (path, maxBytes) => sandbox.read(path, maxBytes),
    list: (globs, maxEntries) => sandbox.list(globs, maxEntries),
    remove: (path) => sandbox.remove(path),
    usage: () => sandbox.usage(),
    [Symbol.asyncDispose]: () => sandbox[Symbol.asyncDispose](),
  }
}
