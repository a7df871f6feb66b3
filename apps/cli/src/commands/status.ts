import { executionStateSchema, executionTraceSchema, parse } from '@cofferdam/contract'
import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { executionIdOf } from '../execution-id.ts'
import { EXIT } from '../exit-status.ts'
import { progressBar } from '../progress-bar.ts'
import { hasFlag } from '../parse-command-line.ts'
import { durationWords, resultLines } from '../show-result.ts'
import { waterfallLines } from '../waterfall.ts'

export const command: Command = {
  usage: 'ID',
  flags: {
    ...API_FLAGS,
    trace: { type: 'boolean', description: 'draw the spans of its trace (kept for an hour)' },
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
    const state = parse(executionStateSchema, await api.call('GET', path), 'the answer')
    const trace = hasFlag(line, 'trace')
      ? parse(executionTraceSchema, await api.call('GET', `${path}/trace`), 'the answer')
      : null
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
    if (state.result !== null) for (const text of resultLines(state.result, terminal)) terminal.line(text)
    if (trace !== null) {
      terminal.line()
      for (const text of waterfallLines(trace.spans)) terminal.line(text)
      if (trace.spans.length === 0)
        terminal.line('Nothing is kept of its trace: too long ago, not sampled, or it has not ended.')
    }
    return EXIT.ok
  },
}
