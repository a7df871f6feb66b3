/** Opens one backend with warm slots in this process, to measure it without queue, caps and audit. */
import { availableParallelism } from 'node:os'
import {
  createBackends,
  createRefillGate,
  warmConfigSchema,
  type BackendsConfigInput,
  type WarmDeps,
} from '@cofferdam/backends'
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type Backend,
  type Limits,
  type Program,
  type SandboxSpec,
} from '@cofferdam/contract'

export interface LocalPlace extends AsyncDisposable {
  backend: Backend
  /** Waits until `count` slots are ready. */
  ready(count: number): Promise<void>
  spec(
    program: Program,
    change?: Partial<Omit<SandboxSpec, 'limits'>> & { limits?: Partial<Limits> },
  ): SandboxSpec
  /**
   * Opens a sandbox, runs the program and checks its output. `ms` is the time until the exit is known. `gone`
   * resolves when the sandbox is destroyed.
   */
  once(spec: SandboxSpec, expected: string): Promise<{ ms: number; gone: Promise<void> }>
}

/** Opens the backend. Throws the reason of the probe when it cannot run here. */
export async function openLocalPlace(
  name: string,
  warm: object | null,
  section: object = {},
): Promise<LocalPlace> {
  const owner = newWorkerId('be9cbe9cbe9c')
  let waiting = 0
  const config = warmConfigSchema.parse(warm ?? {})
  const sections = { [name]: section } as BackendsConfigInput
  const memory = { tryAcquire: () => ({ [Symbol.dispose]: () => undefined }), onPressure: () => undefined }
  const shared: WarmDeps = {
    owner,
    memory,
    refillGate: createRefillGate(availableParallelism()),
    config,
    observe(event) {
      if (event.type === 'warmed') waiting += 1
      if ((event.type === 'taken' && event.warm) || event.type === 'dropped') waiting -= 1
    },
  }
  const backends = await createBackends(sections, warm === null ? {} : { warm: shared })
  const backend = backends.get(name)
  if (backend === undefined) throw new Error(`no backend ${name}`)
  // The first probe of the `microvm` backend boots a virtual machine, so it may take minutes.
  const probe = await backend.probe(AbortSignal.timeout(300_000))
  if (!probe.ok) {
    await backend[Symbol.asyncDispose]()
    throw new Error(probe.why)
  }
  backend.prewarm?.()
  return {
    backend,
    async ready(count) {
      const deadline = performance.now() + 30_000
      while (waiting < count) {
        if (performance.now() > deadline) throw new Error(`${waiting} of ${count} slots after 30 s`)
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    },
    spec: (program, { limits, ...change } = {}) => ({
      sandboxId: newSandboxId(),
      executionId: newExecutionId(),
      attempt: 1,
      tenantId: 'bench',
      owner,
      program,
      limits: { ...DEFAULT_LIMITS, ...limits },
      network: 'none',
      env: {},
      preload: null,
      reuse: 'job',
      session: null,
      ...change,
    }),
    async once(spec, expected) {
      const { signal } = new AbortController()
      const chunks: Uint8Array[] = []
      const startedMs = performance.now()
      const sandbox = await backend.open(spec, signal)
      await sandbox.run(spec.program, {
        onOutput: (_stream, chunk) => void chunks.push(Buffer.from(chunk)),
        maxOutputBytes: { stdout: 65_536, stderr: 65_536 },
        signal,
      })
      const ms = performance.now() - startedMs
      const said = Buffer.concat(chunks).toString()
      const gone = Promise.resolve(sandbox[Symbol.asyncDispose]())
      if (said !== expected)
        throw new Error(`expected ${JSON.stringify(expected)}, got ${JSON.stringify(said)}`)
      return { ms, gone }
    },
    [Symbol.asyncDispose]: async () => {
      await backend[Symbol.asyncDispose]()
    },
  }
}
