import { executionStateSchema } from '@cofferdam/contract'
import { openApi, openClient } from '../api-connection.ts'
import { follow } from '../carry-out.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { EXIT, exitStatusFor } from '../exit-status.ts'
import { executionIdOf, hasFlag } from '../parse-command-line.ts'
import { resultLines } from '../show-result.ts'

export const command: Command = {
  usage: 'ID [--follow]',
  details:
    'Without --follow: the output so far, or all of it once the execution has ended. With --follow: live ' +
    'until the end, and\n' +
    'the exit status is the program’s. Ctrl-C stops watching; the execution continues.',
  flags: {
    follow: { type: 'boolean', short: 'f', description: 'stay until the end' },
    ...API_FLAGS,
  },
  words: { min: 1, max: 1 },
  examples: ['cofferdam logs exe_0193…', 'cofferdam logs exe_0193… -f'],
  async run(context, line) {
    const { terminal } = context
    const id = executionIdOf(line)
    const api = openApi(context, line)
    const state = await api.ask(executionStateSchema, 'GET', `/v1/executions/${id}`)
    if (state.status === 'ended' && state.result !== null) {
      terminal.value({ stdout: state.result.stdout, stderr: state.result.stderr, result: state.result })
      for (const stream of ['stdout', 'stderr'] as const)
        terminal.program(
          stream,
          Buffer.from(await api.bytes(`/v1/executions/${id}/output/${stream}`)).toString(),
        )
      return hasFlag(line, 'follow') ? exitStatusFor(state.result) : EXIT.ok
    }
    await using client = await openClient(context, line)
    if (!hasFlag(line, 'follow')) {
      const printed = { stdout: '', stderr: '' }
      for await (const { event } of client.stream(id, { signal: AbortSignal.timeout(SO_FAR_MS) }))
        if (event.type === 'output') {
          printed[event.stream] += event.text
          terminal.program(event.stream, event.text)
        }
      terminal.value(printed)
      return EXIT.ok
    }
    const result = await follow(client, id, context, { cancelOnStop: false })
    terminal.value(result)
    if (terminal.interactive) for (const text of resultLines(result, terminal)) terminal.note(text)
    return exitStatusFor(result)
  },
}

/** Existing output arrives at once. Reading stops after this time. */
const SO_FAR_MS = 1000
