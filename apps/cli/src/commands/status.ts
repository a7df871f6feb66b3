import { executionStateSchema, parse } from '@cofferdam/contract'
import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { executionIdOf } from '../execution-id.ts'
import { EXIT } from '../exit-status.ts'
import { durationWords, resultLines } from '../show-result.ts'

export const command: Command = {
  usage: 'ID',
  flags: API_FLAGS,
  words: { min: 1, max: 1 },
  examples: ['cofferdam status exe_0193…', 'cofferdam status exe_0193… --json | jq .result.ending'],
  async run(context, line) {
    const { terminal } = context
    const answer = await openApi(context, line).call('GET', `/v1/executions/${executionIdOf(line)}`)
    const state = parse(executionStateSchema, answer, 'the answer')
    terminal.value(state)
    terminal.line(`${state.execution_id}  ${terminal.style('bold', state.status)}`)
    terminal.line(`  tenant     ${state.tenant_id}, agent ${state.agent_id}`)
    terminal.line(`  enqueued   ${state.enqueued_at}`)
    if (state.started_at !== null)
      terminal.line(`  started    ${state.started_at} (attempt ${state.attempt})`)
    if (state.position !== null) terminal.line(`  position   ${state.position} before it`)
    if (state.eta_ms !== null) terminal.line(`  starts in  about ${durationWords(state.eta_ms)}`)
    if (state.result !== null) for (const text of resultLines(state.result, terminal)) terminal.line(text)
    return EXIT.ok
  },
}
