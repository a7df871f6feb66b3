import { executionStateSchema, executionTraceSchema } from '@cofferdam/contract'
import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { executionIdOf, hasFlag } from '../parse-command-line.ts'
import { durationWords, resultLines } from '../show-result.ts'
import { progressBar } from '../terminal.ts'
import { waterfallLines } from '../waterfall.ts'

export const command: Command = {
  usage: 'ID',
  flags: {
    ...API_FLAGS,
    trace: { type: 'boolean', description: 'draw the spans of its trace, which are kept for an hour' },
  },
  words: { min: 1, max: 1 },
  examples: [
    'cofferdam status exe_0193…',
    'cofferdam status exe_0193… --trace',
    'cofferdam status exe_0193… --json | jq .result.ending',
  ],
  async run(context, line) {
    const { terminal } = context
    const api = openApi(context, line)
    const path = `/v1/executions/${executionIdOf(line)}`
    const state = await api.ask(executionStateSchema, 'GET', path)
    const trace = hasFlag(line, 'trace') ? await api.ask(executionTraceSchema, 'GET', `${path}/trace`) : null
    terminal.value(trace === null ? state : { ...state, trace })
    terminal.line(`${state.execution_id}  ${terminal.style('bold', state.status)}`)
    terminal.line(`  tenant     ${state.tenant_id}, agent ${state.agent_id}`)
    terminal.line(`  enqueued   ${state.enqueued_at}`)
    if (state.started_at !== null)
      terminal.line(`  started    ${state.started_at} (attempt ${state.attempt})`)
    if (state.position !== null) terminal.line(`  position   ${state.position} before it`)
    if (state.eta_ms !== null) terminal.line(`  starts in  about ${durationWords(state.eta_ms)}`)
    if (state.progress !== undefined)
      terminal.line(`  progress   ${progressBar(state.progress.fraction, state.progress.message)}`)
    if (state.callback !== undefined) {
      const { state: how, attempts, last_status, last_error } = state.callback
      const answer = last_error ?? (last_status === null ? '' : `answered ${last_status}`)
      terminal.line(`  callback   ${how}, attempts: ${attempts} ${answer}`.trimEnd())
    }
    if (state.result !== null) terminal.lines(resultLines(state.result, terminal))
    if (trace !== null) {
      terminal.line()
      terminal.lines(waterfallLines(trace.spans))
      if (trace.spans.length === 0)
        terminal.line('There is no trace: it is too old, was not sampled, or the execution has not ended.')
    }
    return EXIT.ok
  },
}
