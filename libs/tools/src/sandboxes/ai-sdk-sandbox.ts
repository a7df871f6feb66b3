/**
 * A Cofferdam session as the sandbox of the Vercel AI SDK 7: pass it as `experimental_sandbox` to
 * `generateText`, `streamText` or an agent.
 */
import { spawnProcess } from './ai-sdk-process.ts'
import type { AiSdkCommand, AiSdkSandbox, AiSdkSpawn } from './ai-sdk-shape.ts'
import { describeSandbox } from './describe-sandbox.ts'
import type { SandboxOptions } from './sandbox-options.ts'
import { createSessionSandbox, type CommandOptions, type SessionSandbox } from './session-sandbox.ts'
import { decodeText, encodeText, linesOf } from './text-encoding.ts'
import { bytesOfStream, streamOf } from './byte-stream.ts'

export type { AiSdkSandbox, SandboxOptions, SessionSandbox }

/** The sandbox, and what Cofferdam adds to it. */
export interface CofferdamAiSdkSandbox extends AiSdkSandbox {
  /** The session of the sandbox: its key, and calls that the SDK does not have. */
  readonly session: SessionSandbox
  /**
   * Ends the session with everything in it. If `end` is not called, the session ends after it was idle for
   * too long.
   */
  end(): Promise<void>
}

/**
 * Creates a sandbox. Nothing is called before its first use.
 *
 * `run` resolves for every ending of the command; at the deadline the exit code is 124. It throws
 * CofferdamError if the platform refused the command, and the signal's reason when it aborts. `spawn` rejects
 * with `stdin: true`. While a spawned process runs, every other call waits. Files have at most 8 MiB, and
 * those outside of the work folder can only be read.
 *
 * @example
 * const sandbox = createAiSdkSandbox({ client, tenantId: 'acme', agentId: 'coder', key: conversationId })
 * await generateText({ model, tools, prompt, experimental_sandbox: sandbox })
 */
export function createAiSdkSandbox(options: SandboxOptions): CofferdamAiSdkSandbox {
  const session = createSessionSandbox(options)
  const { files } = session
  return {
    session,
    end: () => session.end(),
    description: describeSandbox(options),
    async run(asked) {
      const { exitCode, stdout, stderr } = await session.run(asked.command, commandOptions(asked))
      return { exitCode, stdout, stderr }
    },
    spawn: (async (asked: AiSdkCommand & { stdin?: boolean }) => {
      if (asked.stdin === true)
        throw new TypeError(
          'A command of this sandbox has no open stdin. Write its input to a file, and use < FILE.',
        )
      return spawnProcess(session, asked.command, commandOptions(asked))
    }) as AiSdkSpawn,
    async readFile({ path, abortSignal }) {
      const bytes = await files.read(path, signalled(abortSignal))
      return bytes === null ? null : streamOf(bytes)
    },
    readBinaryFile: ({ path, abortSignal }) => files.read(path, signalled(abortSignal)),
    async readTextFile({ path, encoding, startLine, endLine, abortSignal }) {
      const bytes = await files.read(path, signalled(abortSignal))
      return bytes === null ? null : linesOf(decodeText(bytes, encoding), startLine, endLine)
    },
    async writeFile({ path, content, abortSignal }) {
      await files.write(path, await bytesOfStream(content, abortSignal), signalled(abortSignal))
    },
    writeBinaryFile: ({ path, content, abortSignal }) => files.write(path, content, signalled(abortSignal)),
    async writeTextFile({ path, content, encoding, abortSignal }) {
      await files.write(path, encodeText(content, encoding), signalled(abortSignal))
    },
    async stat({ path, abortSignal }) {
      const found = await files.stat(path, signalled(abortSignal))
      return found === null ? null : { type: found.type, size: found.size }
    },
    listDirectory: ({ path, abortSignal }) => files.list(path, signalled(abortSignal)),
    deleteFile: ({ path, abortSignal }) => files.remove(path, signalled(abortSignal)),
  }
}

const signalled = (signal: AbortSignal | undefined): { signal?: AbortSignal } =>
  signal === undefined ? {} : { signal }

const commandOptions = ({ workingDirectory, env, abortSignal }: AiSdkCommand): CommandOptions => ({
  ...(workingDirectory === undefined ? {} : { cwd: workingDirectory }),
  ...(env === undefined ? {} : { env }),
  ...signalled(abortSignal),
})
