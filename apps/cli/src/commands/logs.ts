import { executionStateSchema, parse } from '@cofferdam/contract'
import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { executionIdOf } from '../execution-id.ts'
import { EXIT, exitStatusFor } from '../exit-status.ts'
import { follow } from '../follow.ts'
import { openClient } from '../open-client.ts'
import { hasFlag } from '../parse-command-line.ts'
import { resultLines } from '../show-result.ts'

export const command: Command = {
  usage: 'ID [--follow]',
  details:
    'Without --follow: what was printed so far, in full once the execution ended. With it: live until the end, and the\n' +
    'exit status is the program’s. A Ctrl-C stops watching; the execution goes on.',
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
    const state = parse(executionStateSchema, await api.call('GET', `/v1/executions/${id}`), 'the answer')
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

/** What is already there arrives at once; after this silence there is nothing more for now. */
const SO_FAR_MS = 1000
