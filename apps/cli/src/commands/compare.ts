import { comparisonSchema, executionIdSchema } from '@cofferdam/contract'
import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { executionIdOf } from '../parse-command-line.ts'
import { comparisonLines } from '../show-comparison.ts'
import { UsageError } from '../usage-error.ts'

export const command: Command = {
  usage: 'ID [OTHER]',
  details: 'Compares an ended execution with OTHER, or with the one that it runs again.',
  flags: { ...API_FLAGS },
  words: { min: 1, max: 2 },
  examples: ['cofferdam compare exe_0193…', 'cofferdam compare exe_0193… exe_0192… --json'],
  async run(context, line) {
    const { terminal } = context
    const other = executionIdSchema.optional().safeParse(line.words[1])
    if (!other.success) throw new UsageError(`${JSON.stringify(line.words[1])} is no ID of an execution.`)
    const query = other.data === undefined ? '' : `?with=${other.data}`
    const path = `/v1/executions/${executionIdOf(line)}/compare${query}`
    const found = await openApi(context, line).ask(comparisonSchema, 'GET', path)
    terminal.value(found)
    terminal.lines(comparisonLines(found, terminal))
    return EXIT.ok
  },
}
