/**
 * Runs one command of a session. Without a signal and a listener, that is one API call. With either, the
 * client follows the command's events, and the signal cancels the command.
 */
import { isCofferdamError, type ExecutionRequest, type ExecutionResult } from '@cofferdam/client'
import { commandResult, refusalOf, type CommandResult } from './command-result.ts'
import { createLiveOutput, type OutputListener } from './live-output.ts'
import type { SandboxClient } from './sandbox-options.ts'

export interface FollowOptions {
  signal?: AbortSignal
  onOutput?: OutputListener
}

/** A command that the fleet has accepted. */
export interface RunningCommand {
  executionId: string
  /** Rejects with the signal's reason when it aborts, and with CofferdamError as `runCommand` does. */
  result: Promise<CommandResult>
  /** Resolves when the command has ended. */
  kill(): Promise<void>
}

/** How long a command may wait for its turn in the session and for a free worker, besides its own time. */
const TURN_MS = 600_000
/** How long a cancelled command may take to end: the fleet kills it at once, and then cleans up. */
const END_MS = 30_000

/**
 * Resolves when the command has ended, whatever its exit code is. Rejects with the signal's reason when it
 * aborts. Throws CofferdamError if the platform refused or lost the command (`details.execution_id`).
 */
export async function runCommand(
  client: SandboxClient,
  request: ExecutionRequest,
  options: FollowOptions = {},
): Promise<CommandResult> {
  if (options.signal !== undefined || options.onOutput !== undefined)
    return (await startCommand(client, request, options)).result
  try {
    return await finished(client, await client.run(request, { timeoutMs: waitMsOf(request) }))
  } catch (error) {
    const { code, details } = isCofferdamError(error) ? error : { code: null, details: {} }
    if (code === 'wait_timeout') await client.cancel(String(details['execution_id']) as `exe_${string}`)
    throw error
  }
}

/**
 * Resolves when the command is accepted. If the signal is already aborted, rejects with its reason and starts
 * no command.
 */
export async function startCommand(
  client: SandboxClient,
  request: ExecutionRequest,
  { signal, onOutput }: FollowOptions,
): Promise<RunningCommand> {
  signal?.throwIfAborted()
  // The call does not get the signal: if it were aborted, a command whose ID nobody knows could run on.
  const { execution_id: id } = await client.enqueue(request)
  let ended: Promise<unknown> | null = null
  const kill = async (): Promise<void> => {
    ended ??= client.cancel(id, 'aborted').then(() => client.wait(id, { timeoutMs: END_MS }))
    await ended
  }
  const output = createLiveOutput(onOutput)
  const follow = async (): Promise<CommandResult> => {
    const over = AbortSignal.timeout(waitMsOf(request))
    const stop = signal === undefined ? over : AbortSignal.any([signal, over])
    for await (const { event } of client.stream(id, { signal: stop })) output.take(event)
    if (stop.aborted) {
      await kill()
      throw stop.reason
    }
    const result = await client.wait(id)
    if (result === null) throw new Error(`The result of ${id} did not come.`)
    const done = await finished(client, result)
    output.complete(done)
    return done
  }
  const result = follow()
  // Callers may await the result late or never. Its failure must not count as an unhandled rejection.
  result.catch(() => undefined)
  return { executionId: id, result, kill }
}

const waitMsOf = ({ limits }: ExecutionRequest): number => TURN_MS + (limits?.soft_timeout_ms ?? 0)

async function finished(client: SandboxClient, result: ExecutionResult): Promise<CommandResult> {
  const refusal = refusalOf(result)
  if (refusal !== null) throw refusal
  const whole = async (stream: 'stdout' | 'stderr'): Promise<string> => {
    if (!result[`${stream}_truncated`]) return result[stream]
    // The full output may have expired, or the tenant stores none. A part of it is better than nothing.
    return client.executions.output(result.execution_id, stream).catch(() => result[stream])
  }
  return commandResult(result, { stdout: await whole('stdout'), stderr: await whole('stderr') })
}
