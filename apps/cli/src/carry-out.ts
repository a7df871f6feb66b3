/** Runs one request to its end, through the queue or in this process, and shows the result. */
import { constants } from 'node:fs'
import { mkdir, open, realpath } from 'node:fs/promises'
import path from 'node:path'
import type { Client } from '@cofferdam/client'
import {
  CofferdamError,
  type ExecutionId,
  type ExecutionRequest,
  type ExecutionResult,
  pathSchema,
} from '@cofferdam/contract'
import { encodePath, openApi, openClient } from './api-connection.ts'
import type { CommandLine, Context } from './command.ts'
import { exitStatusFor } from './exit-status.ts'
import { hasFlag, textFlag } from './parse-command-line.ts'
import { runLocally, type SaveArtifact } from './run-locally.ts'
import { resultLines } from './show-result.ts'
import { progressBar } from './terminal.ts'

/** Resolves with the exit status of the process. Reads `--local` and `--save` from the command line. */
export async function carryOut(
  request: ExecutionRequest,
  context: Context,
  line: CommandLine,
): Promise<number> {
  const { terminal } = context
  const directory = textFlag(line, 'save')
  const save = directory === undefined ? null : await artifactSaver(path.resolve(context.cwd, directory))
  const result = hasFlag(line, 'local')
    ? await runLocally(request, context, save)
    : await throughTheQueue(request, context, line, save)
  terminal.value(result)
  // The summary goes to stderr, because stdout belongs to the program. That of a success is shown only on a
  // terminal.
  const isShown = terminal.interactive || (!result.ok && !terminal.json)
  if (isShown) for (const text of resultLines(result, terminal)) terminal.note(text)
  return exitStatusFor(result)
}

async function throughTheQueue(
  request: ExecutionRequest,
  context: Context,
  line: CommandLine,
  save: SaveArtifact | null,
) {
  await using client = await openClient(context, line)
  const { execution_id } = await client.enqueue(request)
  const result = await follow(client, execution_id, context, { cancelOnStop: true })
  if (save !== null) {
    const api = openApi(context, line)
    for (const { path: name } of result.artifacts)
      await save(name, await api.bytes(`/v1/executions/${execution_id}/artifacts/${encodePath(name)}`))
  }
  return result
}

/** A result is stored before `ended` is published, so this only covers a slow answer. */
const RESULT_MS = 30_000

/**
 * Follows an execution to its end, shows its output as it arrives, and resolves with the result. With
 * `cancelOnStop`, Ctrl-C cancels the execution. Without it, Ctrl-C only stops watching. (main.ts handles a
 * second one.)
 *
 *   queued ──started──> running ──ended──> result fetched
 *      └── Ctrl-C ──> cancel requested ──ended(cancelled)──> result fetched
 */
export async function follow(
  client: Pick<Client, 'stream' | 'wait' | 'cancel'>,
  id: ExecutionId,
  context: Context,
  options: { cancelOnStop: boolean },
): Promise<ExecutionResult> {
  const { terminal, stop } = context
  const watching = new AbortController()
  const onStop = () => {
    if (!options.cancelOnStop) return watching.abort(stop.reason)
    terminal.progress('cancelling …')
    client.cancel(id, 'cancelled on the command line').catch((error: unknown) => watching.abort(error))
  }
  if (stop.aborted) onStop()
  stop.addEventListener('abort', onStop)
  try {
    for await (const { event } of client.stream(id, { signal: watching.signal })) {
      if (event.type === 'queued') terminal.progress(`${id} is queued …`)
      else if (event.type === 'started')
        terminal.progress(`running on ${event.backend} (${event.isolation}) …`)
      else if (event.type === 'output') terminal.program(event.stream, event.text)
      else if (event.type === 'progress') terminal.progress(progressBar(event.fraction, event.message))
      else if (event.type === 'notice') terminal.note(event.message)
    }
    watching.signal.throwIfAborted()
    const result = await client.wait(id, { timeoutMs: RESULT_MS })
    if (result === null) throw new CofferdamError('wait_timeout', `${id} did not end within ${RESULT_MS} ms.`)
    return result
  } finally {
    terminal.progress(null)
    stop.removeEventListener('abort', onStop)
  }
}

/** Returns a function that writes one artifact below `directory`. An untrusted program chose the names. */
async function artifactSaver(directory: string): Promise<SaveArtifact> {
  await mkdir(directory, { recursive: true })
  const top = await realpath(directory)
  return async (name, bytes) => {
    if (!pathSchema.safeParse(name).success)
      throw new CofferdamError(
        'internal',
        `The artifact name ${JSON.stringify(name)} leads out of its directory. The artifact was not saved.`,
      )
    const target = path.join(top, name)
    await mkdir(path.dirname(target), { recursive: true })
    // An existing symbolic link must not redirect the program's bytes to another directory.
    const parent = await realpath(path.dirname(target))
    if (parent !== top && !parent.startsWith(top + path.sep))
      throw new CofferdamError(
        'internal',
        `${target} leads out of ${top} by a symbolic link. The artifact was not saved.`,
      )
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW
    await using file = await open(target, flags, 0o644)
    await file.writeFile(bytes)
  }
}
