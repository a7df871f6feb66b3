/** Runs one request to its end, through the queue or in this process, and shows how it ended. */
import path from 'node:path'
import type { ExecutionRequest } from '@cofferdam/contract'
import { openApi } from './api-connection.ts'
import type { CommandLine, Context } from './command.ts'
import { exitStatusFor } from './exit-status.ts'
import { follow } from './follow.ts'
import { openClient } from './open-client.ts'
import { hasFlag, textFlag } from './parse-command-line.ts'
import { runLocally } from './run-locally.ts'
import { artifactSaver, type SaveArtifact } from './save-artifacts.ts'
import { resultLines } from './show-result.ts'

/** Resolves with the exit status that the process should have. `--local` and `--save` are read from the command line. */
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
  // On stderr: stdout belongs to the program. A failure is told also where nobody watches, a success is not.
  const told = terminal.interactive || (!result.ok && !terminal.json)
  if (told) for (const text of resultLines(result, terminal)) terminal.note(text)
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
    for (const { path: name } of result.artifacts) {
      const inUrl = name.split('/').map(encodeURIComponent).join('/')
      await save(name, await api.bytes(`/v1/executions/${execution_id}/artifacts/${inUrl}`))
    }
  }
  return result
}
