/**
 * A session of a fleet as a sandbox of an agent: commands, files, and an identity that survives the process.
 * The adapters of the SDKs only map names onto this.
 *
 * One command runs at a time: calls in parallel wait for each other, in any order. The session begins with
 * the first call. If it ends meanwhile, one call fails with `session_not_found`, so that the agent learns
 * that its files are gone. The next call begins a new session.
 */
import { isCofferdamError, type ExecutionRequest, type Session } from '@cofferdam/client'
import type { CommandResult } from './command-result.ts'
import { fileAnswer, fileCommand, type FileAnswers, type FileQuestion } from './file-program.ts'
import { runCommand, startCommand, type FollowOptions, type RunningCommand } from './run-command.ts'
import { requestOf, type SandboxOptions } from './sandbox-options.ts'
import { locate } from './sandbox-path.ts'
import { createSandboxFiles, type SandboxFiles } from './session-files.ts'
import { inFolder } from './shell-line.ts'

export interface CommandOptions extends FollowOptions {
  /** Relative to the work folder. Default: the work folder. If the folder is missing, the command fails. */
  cwd?: string
  env?: Readonly<Record<string, string>>
  timeoutMs?: number
}

/** Where the session is. As JSON it is all that another process needs to continue. */
export interface SandboxIdentity {
  backend: string
  key: string
}

export interface OpenedSandbox extends SandboxIdentity {
  /** The work folder, absolute. */
  root: string
  /** False when the session existed before. */
  fresh: boolean
}

export interface SessionSandbox {
  readonly key: string
  readonly files: SandboxFiles
  /** Begins the session, or finds it. Further calls return the same. Throws CofferdamError. */
  open(options?: { signal?: AbortSignal }): Promise<OpenedSandbox>
  /** Runs a line of bash. Resolves and rejects as `runCommand` does. */
  run: (command: string, options?: CommandOptions) => Promise<CommandResult>
  /** Resolves when the fleet has accepted the command. */
  start(command: string, options?: CommandOptions): Promise<RunningCommand>
  /**
   * The session as the fleet sees it. Null when there is none, or when neither an option nor an earlier call
   * names its backend.
   */
  find(options?: { signal?: AbortSignal }): Promise<Session | null>
  /**
   * Ends the session with everything in it. Does nothing when there is none, or when neither an option nor an
   * earlier call names its backend.
   */
  end(options?: { signal?: AbortSignal }): Promise<void>
}

/** The work folder that SURROUNDINGS.workFolder promises. `open` asks the sandbox for the real one. */
export const WORK_FOLDER = '/tmp/work'

export function createSessionSandbox(options: SandboxOptions): SessionSandbox {
  const { client } = options
  const key = options.key ?? `agent-${crypto.randomUUID()}`
  let opening: Promise<OpenedSandbox> | null = null

  const request = (
    program: { argv: string[] } | { shell: string },
    opened: OpenedSandbox | null,
    { env, timeoutMs }: CommandOptions = {},
  ): ExecutionRequest =>
    requestOf(options, {
      program: { type: 'command', ...program },
      backend: opened?.backend ?? options.backend ?? 'auto',
      key,
      mustExist: opened !== null || options.mustExist === true,
      ...(env === undefined ? {} : { env }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    })

  /** Forgets the session when a call finds that it is gone. */
  async function watching<T>(call: Promise<T>): Promise<T> {
    try {
      return await call
    } catch (error) {
      if (isCofferdamError(error) && error.code === 'session_not_found') opening = null
      throw error
    }
  }

  async function begin(): Promise<OpenedSandbox> {
    const { backend, isFresh, stdout } = await runCommand(client, request({ shell: 'pwd -P' }, null))
    return {
      key,
      backend: backend ?? options.backend ?? 'auto',
      root: stdout.trim() || WORK_FOLDER,
      fresh: isFresh,
    }
  }

  const open: SessionSandbox['open'] = async ({ signal } = {}) => {
    signal?.throwIfAborted()
    // All calls share this promise, so the signal of one call must not cancel it.
    opening ??= begin().catch((error: unknown) => {
      opening = null
      throw error
    })
    const opened = await opening
    signal?.throwIfAborted()
    return opened
  }

  const prepared = async (command: string, asked: CommandOptions): Promise<ExecutionRequest> => {
    const opened = await open(asked)
    const folder = asked.cwd === undefined ? null : locate(opened.root, asked.cwd).absolute
    return request({ shell: inFolder(folder, command) }, opened, asked)
  }

  const name = async (backend?: string) => {
    const { tenantId, agentId, templateId } = options
    return {
      backend: backend ?? (await open()).backend,
      key,
      tenant_id: tenantId,
      agent_id: agentId,
      ...(templateId === undefined ? {} : { template_id: templateId }),
    }
  }

  const files = createSandboxFiles({
    root: async (asked) => (await open(asked)).root,
    async ask<K extends keyof FileAnswers>(question: FileQuestion<K>, asked: FollowOptions) {
      const command = request(fileCommand(question), await open(asked))
      return fileAnswer<K>(await watching(runCommand(client, command, asked)))
    },
    download: async (inside, asked) => watching(client.sessions.readFile(await name(), inside, asked)),
    upload: async (inside, content, asked) =>
      watching(client.sessions.writeFile(await name(), inside, content, asked)),
  })

  /** The backend, if it is known without beginning a session. */
  const knownBackend = async (): Promise<string | undefined> =>
    opening === null ? options.backend : (await opening.catch(() => null))?.backend

  return {
    key,
    files,
    open,
    run: async (command, asked = {}) => watching(runCommand(client, await prepared(command, asked), asked)),
    async start(command, asked = {}) {
      const running = await startCommand(client, await prepared(command, asked), asked)
      watching(running.result).catch(() => undefined)
      return running
    },
    async find(asked = {}) {
      const backend = await knownBackend()
      if (backend === undefined) return null
      const { tenant_id } = await name(backend)
      return orNull(client.sessions.get({ backend, key, tenant_id }, asked))
    },
    async end(asked = {}) {
      const backend = await knownBackend()
      if (backend !== undefined) await orNull(client.sessions.end(await name(backend), asked))
      opening = null
    },
  }
}

/** Null when there is no such session. */
async function orNull<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call
  } catch (error) {
    if (isCofferdamError(error) && error.code === 'session_not_found') return null
    throw error
  }
}
