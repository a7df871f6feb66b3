/**
 * The types of @openai/agents that this package needs, written here so that it does not depend on the SDK. A
 * test has the compiler compare them with the SDK's own.
 */

/** A file, folder, repository or mount of a manifest. `type` says which. */
export interface ManifestEntry {
  type: string
  /** Of a file. */
  content?: unknown
  /** Of a folder. */
  children?: unknown
  permissions?: unknown
  group?: unknown
}

/** `Manifest` of `@openai/agents/sandbox`. */
export interface ManifestShape {
  readonly version: number
  readonly root: string
  readonly entries: Record<string, ManifestEntry>
  readonly environment: Record<string, { readonly value: string; readonly ephemeral: boolean }>
  readonly users: readonly unknown[]
  readonly groups: readonly unknown[]
  readonly extraPathGrants: readonly unknown[]
  resolveEnvironment(): Promise<Record<string, string>>
}

/** From the SDK: `Manifest` of `@openai/agents/sandbox`, and `applyDiff` of `@openai/agents`. */
export interface OpenAiAgentsSdk<M extends ManifestShape> {
  Manifest: abstract new (...init: never) => M
  applyDiff: (input: string, diff: string, mode?: 'default' | 'create') => string
}

/**
 * The state of a session. The client can convert it to JSON, from which another process can continue the
 * session.
 */
export interface OpenAiAgentsState<M> {
  manifest: M
  workspaceReady: boolean
  environment: Record<string, string>
  backend: string
  key: string
  [field: string]: unknown
}

export interface ExecArgs {
  cmd: string
  workdir?: string
  shell?: string
  login?: boolean
  tty?: boolean
  yieldTimeMs?: number
  maxOutputTokens?: number
  runAs?: string
}

export interface ExecResult {
  output: string
  stdout: string
  stderr: string
  wallTimeSeconds: number
  exitCode: number
  originalTokenCount?: number
}

export interface EditorResult {
  status?: 'completed' | 'failed'
  output?: string
}

export interface Editor {
  createFile(operation: { path: string; diff: string }): Promise<EditorResult>
  updateFile(operation: { path: string; diff: string; moveTo?: string | undefined }): Promise<EditorResult>
  deleteFile(operation: { path: string }): Promise<EditorResult>
}

interface PathArgs {
  path: string
  runAs?: string
}

/** The methods of the SDK's `SandboxSession` that our sessions have. The SDK declares the others optional. */
export interface OpenAiAgentsSession<M> {
  state: OpenAiAgentsState<M>
  running(): Promise<boolean>
  /** Stops the commands that run. The session stays. */
  stop(): Promise<void>
  /** Stops, and ends the session if it was made to end with its run. */
  delete(): Promise<void>
  close(): Promise<void>
  createEditor(runAs?: string): Editor
  exec(args: ExecArgs): Promise<ExecResult>
  execCommand(args: ExecArgs): Promise<string>
  viewImage(
    args: PathArgs,
  ): Promise<{ type: 'image'; image: { data: Uint8Array<ArrayBuffer>; mediaType: string } }>
  readFile(args: PathArgs & { maxBytes?: number }): Promise<Uint8Array>
  listDir(args: PathArgs): Promise<{ name: string; path: string; type: 'file' | 'dir' | 'other' }[]>
  pathExists(path: string, runAs?: string): Promise<boolean>
  directoryExists(path: string, runAs?: string): Promise<boolean>
  materializeEntry(args: PathArgs & { entry: ManifestEntry }): Promise<void>
  applyManifest(manifest: M, runAs?: string): Promise<void>
  supportsPty(): boolean
}
