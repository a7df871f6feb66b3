/** A backend that does what a test says, step by step, and counts what was opened and destroyed. */
import {
  CofferdamError,
  LANGUAGES,
  type Backend,
  type Capabilities,
  type Exit,
  type Isolation,
  type Listing,
  type Probe,
  type ProgramFile,
  type RunIo,
  type Sandbox,
  type SandboxSpec,
  unmeasuredUsage,
  type Usage,
} from '@cofferdam/contract'

export const CAPABLE: Capabilities = {
  languages: LANGUAGES,
  programs: ['script', 'command', 'tests', 'install'],
  network: ['none', 'public', 'allow'],
  stdin: true,
  files: true,
  artifacts: true,
  streaming: true,
  sessions: ['none', 'files', 'interpreter'],
  preloads: ['data'],
  value: true,
  interrupt: true,
  maxMs: null,
  enforces: ['memory', 'cpus', 'pids', 'disk'],
  measures: ['wall_ms', 'cpu_ms', 'peak_memory_bytes', 'read_bytes', 'write_bytes'],
}

/** An exit with code 0 and no other facts. */
export function exitOf(partial: Partial<Exit> = {}): Exit {
  return {
    exitCode: 0,
    signal: null,
    usage: { ...unmeasuredUsage(5), cpu_ms: 3, peak_memory_bytes: 1024, read_bytes: 0, write_bytes: 0 },
    outputBytes: { stdout: 0, stderr: 0 },
    outputDropped: { stdout: false, stderr: false },
    oomKills: 0,
    pidsLimitHit: false,
    diskLimitHit: false,
    ...partial,
  }
}

export interface RunControl {
  io: RunIo
  spec: SandboxSpec
  /** Resolves at the first interrupt. */
  interrupted: Promise<void>
  out: (text: string | Uint8Array) => Promise<void>
  err: (text: string | Uint8Array) => Promise<void>
}

export interface Script {
  /** The vendor's name for the sandbox. Left out if there is no vendor. */
  vendorRef?: string
  name?: string
  isolation?: Isolation
  /** The isolation that the sandbox reports. Default: the backend's. */
  sandboxIsolation?: Isolation
  capabilities?: Partial<Capabilities>
  probe?: (signal: AbortSignal) => Promise<Probe>
  open?: (spec: SandboxSpec, signal: AbortSignal) => Promise<void>
  write?: (files: readonly ProgramFile[]) => Promise<void>
  run?: (control: RunControl) => Promise<Exit>
  files?: Record<string, string>
  list?: () => Promise<Listing>
  read?: (path: string, maxBytes: number) => Promise<Uint8Array>
  /** Left out if the sandbox cannot copy files during a run. */
  snapshot?: () => Promise<ProgramFile[]>
  /** The usage that the sandbox reports. Default: as at the end of the program. */
  usage?: Usage
  dispose?: () => Promise<void>
}

export interface ScriptedBackend extends Backend {
  readonly specs: SandboxSpec[]
  readonly written: ProgramFile[]
  readonly live: number
  probes: number
}

export function scriptedBackend(script: Script = {}): ScriptedBackend {
  const name = script.name ?? 'scripted'
  const isolation = script.isolation ?? 'container'
  const specs: SandboxSpec[] = []
  const written: ProgramFile[] = []
  let live = 0

  return {
    name,
    isolation,
    capabilities: { ...CAPABLE, ...script.capabilities },
    specs,
    written,
    get live() {
      return live
    },
    probes: 0,
    async probe(signal) {
      this.probes += 1
      return (await script.probe?.(signal)) ?? { ok: true, features: [] }
    },
    async open(spec, signal) {
      specs.push(spec)
      await script.open?.(spec, signal)
      live += 1
      return sandboxOf(spec)
    },
    kill: async () => false,
    sweep: async () => ({ destroyed: 0 }),
    owners: async () => [],
    async [Symbol.asyncDispose]() {},
  }

  function sandboxOf(spec: SandboxSpec): Sandbox {
    const interrupted = Promise.withResolvers<void>()
    const gone = Promise.withResolvers<never>()
    gone.promise.catch(() => {})
    let disposal: Promise<void> | null = null
    const dispose = async () => {
      gone.reject(new CofferdamError('sandbox_lost'))
      await script.dispose?.()
      live -= 1
    }
    return {
      id: spec.sandboxId,
      ref: {
        backend: name,
        id: spec.sandboxId,
        handle: { n: specs.length },
        ...(script.vendorRef === undefined ? {} : { vendorRef: script.vendorRef }),
      },
      isolation: script.sandboxIsolation ?? isolation,
      warm: false,
      session: null,
      async write(files) {
        await script.write?.(files)
        written.push(...files)
      },
      async run(_program, io) {
        const control: RunControl = {
          io,
          spec,
          interrupted: interrupted.promise,
          out: async (text) => io.onOutput('stdout', Buffer.from(text)),
          err: async (text) => io.onOutput('stderr', Buffer.from(text)),
        }
        return await Promise.race([gone.promise, script.run?.(control) ?? Promise.resolve(exitOf())])
      },
      async interrupt() {
        interrupted.resolve()
      },
      async read(path, maxBytes) {
        if (script.read !== undefined) return script.read(path, maxBytes)
        return Buffer.from(script.files?.[path] ?? '')
      },
      async list() {
        if (script.list !== undefined) return script.list()
        return Object.entries(script.files ?? {}).map(([path, text]) => ({ path, size: text.length }))
      },
      async remove() {},
      ...(script.snapshot === undefined ? {} : { snapshot: script.snapshot }),
      usage: async () => script.usage ?? exitOf().usage,
      [Symbol.asyncDispose]: () => (disposal ??= dispose()),
    }
  }
}

export const never = (): Promise<never> => new Promise(() => {})
