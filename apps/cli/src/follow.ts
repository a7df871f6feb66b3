/**
 * Follows an execution to its end: shows its output as it comes, and cancels it when the user stops.
 *
 *   queued ──started──> running ──ended──> result fetched
 *      └── Ctrl-C ──> cancel asked ──ended(cancelled)──> result fetched      (a second Ctrl-C leaves at once: main.ts)
 */
import type { Client } from '@cofferdam/client'
import { CofferdamError, type ExecutionId, type ExecutionResult } from '@cofferdam/contract'
import type { Context } from './command.ts'
import { progressBar } from './progress-bar.ts'

/** The result stands in the store before `ended` is published; this only covers a slow answer. */
const RESULT_MS = 30_000

/** Resolves with the result. `cancelOnStop`: a Ctrl-C cancels the execution; else it only stops watching. */
export async function follow(
  client: Pick<Client, 'stream' | 'wait' | 'cancel'>,
  id: ExecutionId,
  context: Context,
  options: { cancelOnStop: boolean },
): Promise<ExecutionResult> {
  const { terminal, stop } = context
  const watching = new AbortController()
  const onStop = () => {
    if (!options.cancelOnStop) return watching.abort(stop.reason)
    terminal.progress('cancelling …')
    client.cancel(id, 'cancelled on the command line').catch((error: unknown) => watching.abort(error))
  }
  if (stop.aborted) onStop()
  stop.addEventListener('abort', onStop)
  try {
    for await (const { event } of client.stream(id, { signal: watching.signal })) {
      if (event.type === 'queued') terminal.progress(`${id} is queued …`)
      else if (event.type === 'started')
        terminal.progress(`running on ${event.backend} (${event.isolation}) …`)
      else if (event.type === 'output') terminal.program(event.stream, event.text)
      else if (event.type === 'progress') terminal.progress(progressBar(event.fraction, event.message))
      else if (event.type === 'notice') terminal.note(event.message)
    }
    watching.signal.throwIfAborted()
    const result = await client.wait(id, { timeoutMs: RESULT_MS })
    if (result === null) throw new CofferdamError('wait_timeout', `${id} did not end within ${RESULT_MS} ms.`)
    return result
  } finally {
    terminal.progress(null)
    stop.removeEventListener('abort', onStop)
  }
}
