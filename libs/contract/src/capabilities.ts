/** What a backend can do, and how a request that needs more is refused. */
import type { Language, Program } from './program.ts'
import type { Network } from './network.ts'
import type { SessionScope } from './session-field.ts'
import type { Usage } from './usage.ts'

export interface Capabilities {
  languages: readonly Language[]
  programs: readonly Program['type'][]
  network: readonly ('none' | 'public' | 'allow')[]
  stdin: boolean
  files: boolean
  artifacts: boolean
  /** Output is delivered while the program runs. */
  streaming: boolean
  /**
   * The session scopes that the backend supports. If `none` is among them, it also supports reuse scope
   * `tenant`. Empty: every execution gets its own sandbox.
   */
  sessions: readonly SessionScope[]
  /** Names of the preload sets that a warm sandbox may have imported. The empty set `none` is not listed. */
  preloads: readonly string[]
  value: boolean
  /** Programs can report progress with `cofferdam.progress`. Default false. */
  progress?: boolean
  /** `interrupt()` reaches the program. */
  interrupt: boolean
  /** Sandboxes run on another host, and need only REMOTE_HOST_MIB of the worker's memory. Default false. */
  remote?: boolean
  /** The longest hard deadline, milliseconds. Null when the backend has no limit. */
  maxMs: number | null
  /** Limits that the backend enforces. No request is refused because its backend does not enforce a limit. */
  enforces: readonly ('memory' | 'cpus' | 'pids' | 'disk')[]
  /** Fields of `Usage` that the backend measures. The others are null. */
  measures: readonly (keyof Usage)[]
}

/**
 * MiB of the worker's memory that one remote sandbox may use: frames in flight (1 MiB each way), the output
 * that the result shows, and up to 16 MiB of artifacts.
 */
export const REMOTE_HOST_MIB = 16

/** What `need` asks for and `capabilities` lack, in words. Empty when nothing is missing. */
export function missingCapabilities(
  capabilities: Capabilities,
  need: {
    program: Program
    network: Network
    stdin: boolean
    files: boolean
    artifacts: boolean
    reuse: 'job' | 'session' | 'tenant'
    sessionScope: SessionScope | null
    preload: string | null
    cpuTime: boolean
    hardTimeoutMs: number
    /** Whether the limits have a heartbeat. Default false. */
    heartbeat?: boolean
  },
): string[] {
  const missing: string[] = []
  // A program of type `files` runs nothing.
  if (need.program.type !== 'files' && !capabilities.programs.includes(need.program.type))
    missing.push(`programs of type ${need.program.type}`)
  if (need.program.type === 'script' && !capabilities.languages.includes(need.program.language))
    missing.push(`language ${need.program.language}`)
  const network = typeof need.network === 'string' ? need.network : 'allow'
  if (!capabilities.network.includes(network)) missing.push(`network ${network}`)
  if (need.stdin && !capabilities.stdin) missing.push('stdin')
  if (need.files && !capabilities.files) missing.push('files')
  if (need.artifacts && !capabilities.artifacts) missing.push('artifacts')
  if (need.reuse !== 'job' && !capabilities.sessions.includes(need.sessionScope ?? 'none'))
    missing.push(
      need.reuse === 'tenant' ? 'reuse tenant' : `sessions of scope ${need.sessionScope ?? 'none'}`,
    )
  if (need.preload !== null && !capabilities.preloads.includes(need.preload))
    missing.push(`preload ${need.preload}`)
  if (need.cpuTime && !capabilities.measures.includes('cpu_ms')) missing.push('a CPU-time limit')
  if (need.heartbeat === true && capabilities.progress !== true) missing.push('progress for a heartbeat')
  if (capabilities.maxMs !== null && need.hardTimeoutMs > capabilities.maxMs)
    missing.push(`a hard deadline of ${need.hardTimeoutMs} ms (at most ${capabilities.maxMs})`)
  return missing
}
