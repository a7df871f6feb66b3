import { openClient } from '../api-connection.ts'
import { buildRequest } from '../build-request.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { PROGRAM_FLAGS, QUEUE_FLAGS } from '../program-flags.ts'

export const command: Command = {
  usage: 'FILE|- [flags] [-- ARGV…]',
  details: 'Prints the ID of the execution and returns at once; see status, logs and cancel.',
  flags: { ...PROGRAM_FLAGS, ...QUEUE_FLAGS, ...API_FLAGS },
  words: { min: 1, max: 1 },
  takesRest: true,
  examples: [
    'cofferdam enqueue report.py --lane routine --delay 10m',
    'id=$(cofferdam enqueue job.py --idempotency-key nightly-2026-11-20); cofferdam logs "$id" --follow',
  ],
  async run(context, line) {
    const { terminal } = context
    const request = await buildRequest(line, context)
    await using client = await openClient(context, line)
    const accepted = await client.enqueue(request)
    terminal.value(accepted)
    terminal.line(accepted.execution_id)
    if (terminal.interactive) {
      const ahead = accepted.position === null ? '' : `, ${accepted.position} before it`
      terminal.note(`${accepted.deduplicated ? 'already enqueued: ' : ''}${accepted.status}${ahead}`)
    }
    return EXIT.ok
  },
}
