import { comparisonSchema, isCofferdamError, rerunSchema } from '@cofferdam/contract'
import { openApi, openClient } from '../api-connection.ts'
import { follow } from '../carry-out.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { exitStatusFor } from '../exit-status.ts'
import { executionIdOf, textFlag } from '../parse-command-line.ts'
import { QUEUE_FLAGS } from '../program-flags.ts'
import { EDIT_FLAGS, editOf } from '../rerun-edit.ts'
import { comparisonLines } from '../show-comparison.ts'

export const command: Command = {
  usage: 'ID [flags] [-- ARGV…]',
  details:
    'Runs an ended execution again, as it was or with the edits that flags name, and compares both results ' +
    'at the end.\n' +
    'The policy of its tenant must keep programs: cofferdam tenant set TENANT --keep-program errors. The ' +
    'exit status is\n' +
    'that of the new run. Ctrl-C cancels it.',
  flags: { ...EDIT_FLAGS, 'idempotency-key': QUEUE_FLAGS['idempotency-key'], ...API_FLAGS },
  words: { min: 1, max: 1 },
  takesRest: true,
  examples: [
    'cofferdam rerun exe_0193…',
    'cofferdam rerun exe_0193… --program fixed.py --memory 512 --env DEBUG=1 -- --verbose',
    "cofferdam rerun exe_0193… --backend gvisor --json | jq '.comparison.differences'",
  ],
  async run(context, line) {
    const { terminal } = context
    const id = executionIdOf(line)
    const edit = await editOf(line, context)
    const api = openApi(context, line)
    const key = textFlag(line, 'idempotency-key')
    const body = { edit, ...(key === undefined ? {} : { idempotency_key: key }) }
    const rerun = await api.ask(rerunSchema, 'POST', `/v1/executions/${id}/rerun`, body)
    for (const { text } of rerun.notes) terminal.note(text)
    const again = rerun.execution.execution_id
    await using client = await openClient(context, line)
    const result = await follow(client, again, context, { cancelOnStop: true })
    const comparison = await api
      .ask(comparisonSchema, 'GET', `/v1/executions/${again}/compare?with=${id}`)
      .catch((error: unknown) => {
        // While Postgres is away, the new audit row is not there yet. The result is.
        if (isCofferdamError(error)) terminal.note(`No comparison: ${error.message}`)
        else throw error
        return null
      })
    terminal.value({ ...rerun, result, comparison })
    if (comparison !== null) terminal.lines(comparisonLines(comparison, terminal))
    return exitStatusFor(result)
  },
}
