import path from 'node:path'
import { buildRequest } from '../build-request.ts'
import { carryOut } from '../carry-out.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { hasFlag, textFlag } from '../parse-command-line.ts'
import { PROGRAM_FLAGS, QUEUE_FLAGS } from '../program-flags.ts'
import { changeOf, stampOf } from '../file-change.ts'
import { UsageError } from '../usage-error.ts'

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
    if (!hasFlag(line, 'watch')) return await carryOut(await buildRequest(line, context), context, line)
    const file = line.words[0] ?? '-'
    if (file === '-' || textFlag(line, 'stdin') === '-')
      throw new UsageError('--watch runs a file again and again; standard input can be read only once.')
    const watched = path.resolve(context.cwd, file)
    for (;;) {
      const before = await stampOf(watched)
      const status = await carryOut(await buildRequest(line, context), context, line)
      if (context.stop.aborted) return status
      context.terminal.note(`Exit status ${status}. Waiting for a change of ${file}; Ctrl-C ends.`)
      if (!(await changeOf(watched, before, context.stop))) return status
    }
  },
}
