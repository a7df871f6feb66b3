/** The parts of `WorkspaceSandbox` of @mastra/core that our sessions implement. A test compares the two. */

export type MastraStatus =
  | 'pending'
  | 'starting'
  | 'running'
  | 'stopping'
  | 'stopped'
  | 'destroying'
  | 'destroyed'
  | 'error'

export interface MastraCommandOptions {
  /** Milliseconds. */
  timeout?: number
  env?: Record<string, string | undefined>
  cwd?: string
  onStdout?: (data: string) => void
  onStderr?: (data: string) => void
  abortSignal?: AbortSignal
  /** The newest bytes of each stream that the result keeps. Callbacks get everything. Default: all. */
  maxRetainedBytes?: number
}

export interface MastraCommandResult {
  success: boolean
  exitCode: number
  stdout: string
  stderr: string
  executionTimeMs: number
  timedOut: boolean
  killed: boolean
  stdoutTruncated: boolean
  stderrTruncated: boolean
  stdoutDroppedBytes: number
  stderrDroppedBytes: number
  command: string
  args?: string[]
}

export interface MastraFile {
  path: string
  content: string | Uint8Array
  /** Permission bits, 0o001 to 0o777. */
  mode?: number
}

export interface MastraSandboxInfo {
  id: string
  name: string
  provider: string
  status: MastraStatus
  createdAt: Date
  lastUsedAt?: Date
  timeoutAt?: Date
  metadata?: Record<string, unknown>
}

type Environment = Record<string, string | undefined>

export interface MastraSandboxShape {
  readonly id: string
  readonly name: string
  readonly provider: string
  status: MastraStatus
  error?: string
  start(options?: { abortSignal?: AbortSignal }): Promise<{ outcome: 'created' | 'connected' }>
  stop(): Promise<void>
  destroy(): Promise<void>
  getInfo(): Promise<MastraSandboxInfo>
  getInstructions(): string
  snapshot(): Promise<void>
  setEnv(update: (env: Environment) => Environment): void
  executeCommand(
    command: string,
    args?: string[],
    options?: MastraCommandOptions,
  ): Promise<MastraCommandResult>
  writeFiles(files: MastraFile[], options?: { abortSignal?: AbortSignal }): Promise<void>
}
