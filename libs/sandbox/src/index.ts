/**
 * Sandboxes on this host for programs of your own, without a queue, a database or a worker: see README.md.
 * Deadlines and output bounds have the same meaning as in a fleet.
 */
import { randomBytes } from 'node:crypto'
import {
  CofferdamError,
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  unmeasuredUsage,
  type Backend,
  type Language,
  type Limits,
  type Program,
  type Sandbox,
  type SandboxSpec,
  type Usage,
} from '@cofferdam/contract'
import type { BackendLogger } from './deps.ts'

export interface OpenOptions {
  /** Default `process`: a jail that needs no Docker. `none` is a plain process without isolation. */
  backend?: 'process' | 'docker' | 'gvisor' | 'none'
  /** The backend's own settings, as below `backends.<name>` in docs/configuration.md. */
  config?: object
  /**
   * Language of the scripts that `run` gets as text. Its interpreter waits in the sandbox. Default `python`.
   */
  language?: Language
  /** Default: soft stop after 25 s, kill after 30 s, 256 MiB of memory, 1 CPU, 64 MiB of disk. */
  limits?: Partial<Limits>
  /** Environment variables of the programs. */
  env?: Record<string, string>
  /**
   * What a run leaves to the next one. Without it the sandbox runs one program. Throws `capability_missing`
   * if the backend cannot clean up between runs.
   */
  keep?: 'files' | 'interpreter' | 'processes'
  /** Stops the opening. */
  signal?: AbortSignal
  /** Gets failures of clean-up. */
  logger?: BackendLogger
}

export interface RunOptions {
  stdin?: string | Uint8Array
  /** Receives the output while the program runs. `run` returns it as well. */
  onOutput?(stream: 'stdout' | 'stderr', chunk: Uint8Array): void | Promise<void>
  /** Stops waiting: `run` rejects with the signal's reason. Dispose the sandbox then. */
  signal?: AbortSignal
}

/** How a program ended. */
export interface RunResult {
  /** Null after a signal. */
  exitCode: number | null
  signal: string | null
  /** At most `limits.stdout_bytes` and `limits.stderr_bytes`, read as UTF-8. */
  stdout: string
  stderr: string
  /** Whether output beyond limits.stdout_bytes and limits.stderr_bytes was dropped. */
  truncated: { stdout: boolean; stderr: boolean }
  /** The deadline that passed while the program ran. */
  timedOut: 'soft' | 'hard' | null
  usage: Usage
}

export interface OpenedSandbox extends AsyncDisposable {
  readonly isolation: Backend['isolation']
  /** Runs a script in the language of the sandbox, or any program. Never throws for what the program did. */
  run(program: string | Program, options?: RunOptions): Promise<RunResult>
  /** Puts files into the work directory, by their relative paths. */
  write(files: Record<string, string | Uint8Array>): Promise<void>
  /** Reads a file of the work directory. Throws `payload_too_large` above `maxBytes` (default 8 MiB). */
  read(path: string, maxBytes?: number): Promise<Buffer>
  /** Kills everything inside and resolves when it is proven gone. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Opens a sandbox on this host. Throws `backend_unavailable` with what is missing and what to do about it,
 * `sandbox_open_failed`, `capability_missing`, `config_invalid`.
 */
export async function openSandbox(options: OpenOptions = {}): Promise<OpenedSandbox> {
  const { language = 'python', keep, signal = new AbortController().signal } = options
  const limits: Limits = { ...DEFAULT_LIMITS, ...options.limits }
  const script = (source: string): Program => ({ type: 'script', language, source })
  const spec: SandboxSpec = {
    sandboxId: newSandboxId(),
    executionId: newExecutionId(),
    attempt: 1,
    tenantId: 'local',
    // The owner is a worker ID that no fleet has, so that no janitor sweeps the sandbox.
    owner: newWorkerId(randomBytes(6).toString('hex')),
    program: script(''),
    limits,
    network: 'none',
    env: options.env ?? {},
    preload: null,
    reuse: keep === undefined ? 'job' : 'session',
    session: keep === undefined ? null : { key: 'local', scope: keep, idleMs: null },
  }
  const backend = await createBackend(options)
  let sandbox: Sandbox
  try {
    const probe = await backend.probe(signal)
    if (!probe.ok)
      throw new CofferdamError('backend_unavailable', `${backend.name}: ${probe.why} ${probe.fix}`)
    sandbox = await backend.open(spec, signal)
  } catch (error) {
    await backend[Symbol.asyncDispose]()
    throw error
  }
  return {
    isolation: sandbox.isolation,
    run: (program, io) =>
      run(sandbox, limits, typeof program === 'string' ? script(program) : program, io ?? {}),
    write: (files) =>
      sandbox.write(Object.entries(files).map(([path, content]) => ({ path, bytes: Buffer.from(content) }))),
    read: async (path, maxBytes = DEFAULT_LIMITS.artifact_bytes) =>
      Buffer.from(await sandbox.read(path, maxBytes)),
    async [Symbol.asyncDispose]() {
      sandbox.retire?.()
      try {
        await sandbox[Symbol.asyncDispose]()
      } finally {
        await backend[Symbol.asyncDispose]()
      }
    },
  }
}

/** Loads only what this backend needs. */
async function createBackend({
  backend: name = 'process',
  config = {},
  logger,
}: OpenOptions): Promise<Backend> {
  const deps = logger === undefined ? {} : { logger }
  switch (name) {
    case 'process': {
      const [{ createBackend }, { processConfigSchema }] = await Promise.all([
        import('./process/index.ts'),
        import('./process/config.ts'),
      ])
      return createBackend(processConfigSchema.parse(config), deps, name)
    }
    case 'none': {
      const [{ createBackend }, { noneConfigSchema }] = await Promise.all([
        import('./none/index.ts'),
        import('./none/config.ts'),
      ])
      return createBackend(noneConfigSchema.parse(config), deps, name)
    }
    case 'docker':
    case 'gvisor': {
      const [{ createBackend }, schemas] = await Promise.all([
        import('./docker/index.ts'),
        import('./docker/config.ts'),
      ])
      const schema = name === 'docker' ? schemas.dockerConfigSchema : schemas.gvisorConfigSchema
      return createBackend(schema.parse(config), deps, name)
    }
  }
}

async function run(
  sandbox: Sandbox,
  limits: Limits,
  program: Program,
  options: RunOptions,
): Promise<RunResult> {
  const { stdin, signal = new AbortController().signal } = options
  const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  const text = (stream: 'stdout' | 'stderr'): string => Buffer.concat(output[stream]).toString('utf8')
  let timedOut: RunResult['timedOut'] = null
  const soft = setTimeout(() => {
    timedOut = 'soft'
    void sandbox.interrupt()
  }, limits.soft_timeout_ms)
  const hard = setTimeout(() => {
    timedOut = 'hard'
    // Ignore a failure here. The caller disposes the sandbox too, and that call proves the end or throws.
    sandbox[Symbol.asyncDispose]().then(undefined, () => undefined)
  }, limits.hard_timeout_ms)
  const startedMs = performance.now()
  let ended: Pick<RunResult, 'exitCode' | 'signal' | 'usage' | 'truncated'>
  try {
    const exit = await sandbox.run(program, {
      async onOutput(stream, chunk) {
        // The bytes are valid only until this call resolves.
        output[stream].push(Buffer.from(chunk))
        await options.onOutput?.(stream, chunk)
      },
      maxOutputBytes: { stdout: limits.stdout_bytes, stderr: limits.stderr_bytes },
      ...(stdin === undefined ? {} : { stdin: Buffer.from(stdin) }),
      signal,
    })
    ended = { exitCode: exit.exitCode, signal: exit.signal, usage: exit.usage, truncated: exit.outputDropped }
  } catch (error) {
    if (timedOut !== 'hard') throw error
    ended = {
      exitCode: null,
      signal: 'SIGKILL',
      usage: unmeasuredUsage(performance.now() - startedMs),
      truncated: { stdout: false, stderr: false },
    }
  } finally {
    clearTimeout(soft)
    clearTimeout(hard)
  }
  return { ...ended, stdout: text('stdout'), stderr: text('stderr'), timedOut }
}
