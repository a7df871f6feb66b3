/**
 * A Cofferdam session as the sandbox of a Mastra workspace. It implements Mastra's interface directly, so it
 * needs nothing of @mastra/core.
 */
import { CofferdamError } from '@cofferdam/client'
import type { CommandResult } from './command-result.ts'
import { describeSandbox } from './describe-sandbox.ts'
import type {
  MastraCommandOptions,
  MastraCommandResult,
  MastraSandboxInfo,
  MastraSandboxShape,
  MastraStatus,
} from './mastra-shape.ts'
import { newestBytes } from './newest-bytes.ts'
import type { SandboxOptions } from './sandbox-options.ts'
import { createSessionSandbox, type CommandOptions, type SessionSandbox } from './session-sandbox.ts'
import { quoted } from './shell-line.ts'

export type { SandboxOptions, SessionSandbox }

export interface CofferdamMastraSandbox extends MastraSandboxShape {
  /** The session of the sandbox: its files, and calls that Mastra does not have. */
  readonly session: SessionSandbox
}

/**
 * Creates a sandbox. Its ID is the key of its session: the same ID finds the same files, also from another
 * process. A call starts it when needed. `stop` keeps the session, which ends when it is idle for too long.
 * `destroy` ends it.
 *
 * `executeCommand` resolves for every ending of the command; at the deadline with `timedOut`. It throws
 * CofferdamError if the platform refused the command, and the signal's reason when it aborts. One command
 * runs at a time, so there is no process manager.
 *
 * @example
 * const sandbox = createMastraSandbox({ client, tenantId: 'acme', agentId: 'coder', key: threadId })
 * const agent = new Agent({ id: 'coder', model, workspace: new Workspace({ sandbox }) })
 */
export function createMastraSandbox(options: SandboxOptions): CofferdamMastraSandbox {
  const session = createSessionSandbox(options)
  let environment: Record<string, string | undefined> = {}

  async function change<T>(during: MastraStatus, after: MastraStatus, work: () => Promise<T>): Promise<T> {
    sandbox.status = during
    try {
      const done = await work()
      sandbox.status = after
      return done
    } catch (error) {
      sandbox.status = 'error'
      throw error
    }
  }

  async function running(): Promise<void> {
    if (sandbox.status === 'destroyed')
      throw new CofferdamError('session_not_found', 'The sandbox is destroyed.')
    if (sandbox.status !== 'running') await sandbox.start()
  }

  const sandbox: CofferdamMastraSandbox = {
    session,
    id: session.key,
    name: 'Cofferdam',
    provider: 'cofferdam',
    status: 'pending',
    async start({ abortSignal } = {}) {
      const { fresh } = await change('starting', 'running', () => session.open(signalled(abortSignal)))
      return { outcome: fresh ? 'created' : 'connected' }
    },
    stop: () => change('stopping', 'stopped', async () => undefined),
    destroy: () => change('destroying', 'destroyed', () => session.end()),
    async getInfo(): Promise<MastraSandboxInfo> {
      const found = await session.find()
      const { id, name, provider, status } = sandbox
      if (found === null) return { id, name, provider, status, createdAt: new Date() }
      return {
        id,
        name,
        provider,
        status,
        createdAt: new Date(found.created_at),
        lastUsedAt: new Date(found.used_at),
        timeoutAt: new Date(found.idle_at),
        metadata: { backend: found.backend, sessionId: found.session_id, state: found.state },
      }
    },
    getInstructions: () => describeSandbox(options),
    // A session has no checkpoints, and Mastra expects nothing to happen then.
    snapshot: async () => undefined,
    setEnv(update) {
      environment = update({ ...environment })
    },
    async executeCommand(command, args = [], asked = {}) {
      await running()
      const line = [command, ...args.map(quoted)].join(' ')
      const result = await session.run(line, commandOptions(asked, environment))
      return {
        ...resultOf(result, asked.maxRetainedBytes),
        command: line,
        ...(args.length > 0 ? { args } : {}),
      }
    },
    async writeFiles(files, { abortSignal } = {}) {
      for (const { mode } of files) if (mode !== undefined) checkMode(mode)
      abortSignal?.throwIfAborted()
      await running()
      for (const { path, content, mode } of files) {
        await session.files.write(path, content, signalled(abortSignal))
        if (mode !== undefined) await session.files.setMode(path, mode, signalled(abortSignal))
      }
    },
  }
  return sandbox
}

const signalled = (signal: AbortSignal | undefined): { signal?: AbortSignal } =>
  signal === undefined ? {} : { signal }

/** Throws `invalid_request`, before anything is written. */
function checkMode(mode: number): void {
  if (Number.isInteger(mode) && mode >= 0o001 && mode <= 0o777) return
  throw new CofferdamError('invalid_request', `The mode of a file is between 0o001 and 0o777, not ${mode}.`)
}

function commandOptions(
  { timeout, env, cwd, abortSignal, onStdout, onStderr }: MastraCommandOptions,
  overlay: Record<string, string | undefined>,
): CommandOptions {
  const set = Object.entries({ ...overlay, ...env }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  )
  const listens = onStdout !== undefined || onStderr !== undefined
  return {
    env: Object.fromEntries(set),
    ...signalled(abortSignal),
    ...(cwd === undefined ? {} : { cwd }),
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
    ...(listens
      ? { onOutput: (stream, text) => (stream === 'stdout' ? onStdout?.(text) : onStderr?.(text)) }
      : {}),
  }
}

function resultOf(
  result: CommandResult,
  most = Number.POSITIVE_INFINITY,
): Omit<MastraCommandResult, 'command'> {
  const [stdout, stderr] = [newestBytes(result.stdout, most), newestBytes(result.stderr, most)]
  const [stdoutDroppedBytes, stderrDroppedBytes] = [
    stdout.dropped + result.stdoutDropped,
    stderr.dropped + result.stderrDropped,
  ]
  return {
    success: result.exitCode === 0,
    exitCode: result.exitCode,
    stdout: stdout.text,
    stderr: stderr.text,
    executionTimeMs: result.durationMs,
    timedOut: result.isTimedOut,
    killed: result.isKilled,
    stdoutTruncated: stdoutDroppedBytes > 0,
    stderrTruncated: stderrDroppedBytes > 0,
    stdoutDroppedBytes,
    stderrDroppedBytes,
  }
}
