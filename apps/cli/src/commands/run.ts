import { watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { buildRequest } from '../build-request.ts'
import { carryOut } from '../carry-out.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { hasFlag, textFlag } from '../parse-command-line.ts'
import { PROGRAM_FLAGS, QUEUE_FLAGS, RUN_FLAGS } from '../program-flags.ts'
import { UsageError } from '../usage-error.ts'

export const command: Command = {
  usage: 'FILE|- [flags] [-- ARGV…]',
  details:
    'Sends the program through the queue of a running fleet (`cofferdam up`) and shows its output live. ' +
    'The exit status is\n' +
    'the program’s own, or 124 for a timeout, 137 out of memory, 130 cancelled, 1 when the platform ' +
    'failed. Ctrl-C cancels.',
  flags: {
    ...PROGRAM_FLAGS,
    ...RUN_FLAGS,
    watch: { type: 'boolean', short: 'w', description: 'run it again whenever the file changes' },
    ...QUEUE_FLAGS,
    ...API_FLAGS,
  },
  words: { min: 1, max: 1 },
  takesRest: true,
  examples: [
    'cofferdam run hello.py',
    'cofferdam run job.py --timeout 2m --memory 512 --file data.csv --artifact "out/*.png" --save . -- ' +
      '--verbose',
    "echo 'print(6*7)' | cofferdam run - --language python",
    'cofferdam run --local hello.ts',
  ],
  async run(context, line) {
    if (!hasFlag(line, 'watch')) return await carryOut(await buildRequest(line, context), context, line)
    const file = line.words[0] ?? '-'
    if (file === '-' || textFlag(line, 'stdin') === '-')
      throw new UsageError('--watch needs a file, because standard input can be read only once. Name a file.')
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

/** Editors write, rename and touch a file in quick succession. Events within this time are one change. */
const DEBOUNCE_MS = 50

/** Distinguishes versions of a file without reading it. Null while the file is absent. */
async function stampOf(file: string): Promise<string | null> {
  try {
    const { mtimeMs, size, ino } = await stat(file)
    return `${mtimeMs} ${size} ${ino}`
  } catch {
    return null
  }
}

/** Resolves with true once the file differs from `before`, even at the start. False when `stop` aborts. */
async function changeOf(file: string, before: string | null, stop: AbortSignal): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>()
  const look = async (): Promise<void> => {
    const now = await stampOf(file)
    // An editor that replaces the file removes it for a moment. The next event reports the new file.
    if (now !== null && now !== before) resolve(true)
  }
  const lookSoon = (): void => {
    setTimeout(() => void look().catch(reject), DEBOUNCE_MS)
  }
  const watcher = watch(path.dirname(file), (_, name) => {
    if (name === path.basename(file)) lookSoon()
  })
  watcher.on('error', reject)
  const onStop = (): void => resolve(false)
  stop.addEventListener('abort', onStop)
  if (stop.aborted) onStop()
  // Finds a change from before the watcher started.
  lookSoon()
  try {
    return await promise
  } finally {
    watcher.close()
    stop.removeEventListener('abort', onStop)
  }
}
