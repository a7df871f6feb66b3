import path from 'node:path'
import type { ExecutionRequest } from '@cofferdam/contract'
import { buildRequest } from '../build-request.ts'
import { API_FLAGS, type Command, type CommandLine, type Context } from '../command.ts'
import { exitStatusFor } from '../exit-status.ts'
import { follow } from '../follow.ts'
import { openClient } from '../open-client.ts'
import { hasFlag, textFlag } from '../parse-command-line.ts'
import { PROGRAM_FLAGS, QUEUE_FLAGS } from '../program-flags.ts'
import { changeOf, stampOf } from '../file-change.ts'
import { openApi } from '../api-connection.ts'
import { runLocally } from '../run-locally.ts'
import { artifactSaver, type SaveArtifact } from '../save-artifacts.ts'
import { UsageError } from '../usage-error.ts'
import { resultLines } from '../show-result.ts'

export const command: Command = {
  usage: 'FILE|- [flags] [-- ARGV…]',
  details:
    'The program goes through the queue of a running fleet (`cofferdam up`), its output comes live, and the exit status\n' +
    'is its own: 124 for a timeout, 137 out of memory, 130 cancelled, 1 when the platform failed. Ctrl-C cancels it.',
  flags: {
    ...PROGRAM_FLAGS,
    save: { type: 'string', value: 'DIR', description: 'write the artifacts below this directory' },
    watch: { type: 'boolean', short: 'w', description: 'run it again whenever the file changes' },
    local: {
      type: 'boolean',
      description: 'skip the queue: run it from this process, uncapped and unaudited',
    },
    ...QUEUE_FLAGS,
    ...API_FLAGS,
  },
  words: { min: 1, max: 1 },
  takesRest: true,
  examples: [
    'cofferdam run hello.py',
    'cofferdam run job.py --timeout 2m --memory 512 --file data.csv --artifact "out/*.png" --save . -- --verbose',
    "echo 'print(6*7)' | cofferdam run - --language python",
    'cofferdam run --local hello.ts',
  ],
  async run(context, line) {
    if (!hasFlag(line, 'watch')) return await runOnce(context, line)
    const file = line.words[0] ?? '-'
    if (file === '-' || textFlag(line, 'stdin') === '-')
      throw new UsageError('--watch runs a file again and again; standard input can be read only once.')
    const watched = path.resolve(context.cwd, file)
    for (;;) {
      const before = await stampOf(watched)
      const status = await runOnce(context, line)
      if (context.stop.aborted) return status
      context.terminal.note(`Exit status ${status}. Waiting for a change of ${file}; Ctrl-C ends.`)
      if (!(await changeOf(watched, before, context.stop))) return status
    }
  },
}

async function runOnce(context: Context, line: CommandLine): Promise<number> {
  const { terminal } = context
  const request = await buildRequest(line, context)
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
