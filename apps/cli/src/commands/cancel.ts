import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { executionIdOf } from '../execution-id.ts'
import { EXIT } from '../exit-status.ts'

export const command: Command = {
  usage: 'ID',
  details: 'A queued execution is removed at once; a running one is killed with its whole process tree.',
  flags: API_FLAGS,
  words: { min: 1, max: 1 },
  examples: ['cofferdam cancel exe_0193…'],
  async run(context, line) {
    const id = executionIdOf(line)
    const answer = await openApi(context, line).call('POST', `/v1/executions/${id}/cancel`)
    context.terminal.value(answer)
    context.terminal.line(`${id}: ${outcomeOf(answer)}`)
    return EXIT.ok
  },
}

function outcomeOf(answer: unknown): string {
  const found =
    typeof answer === 'object' && answer !== null && 'status' in answer ? answer.status : 'cancelling'
  return String(found)
}
