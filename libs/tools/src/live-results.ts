/** Preliminary results of a call, for SDKs whose tools may yield more than one. */
import type { ExecutionEvent } from '@cofferdam/client'
import { emptyResult, type CodeResult } from './code-result.ts'
import type { ToolCall } from './tool-call.ts'

/** A user interface gets at most ten results per second. Each has all of the recent output. */
const PAUSE_MS = 100
/** Recent output in a preliminary result, characters of each stream. */
const RECENT_CHARS = 4000

/**
 * Runs a call and yields what is known so far, at most every 100 ms, then the result. If the consumer stops
 * early, the execution is cancelled.
 */
export async function* liveResults(
  run: (call: ToolCall) => Promise<CodeResult>,
  call: ToolCall,
): AsyncGenerator<CodeResult, void, undefined> {
  const leaving = new AbortController()
  const leave = (): void => leaving.abort(call.signal?.reason)
  if (call.signal?.aborted === true) leave()
  call.signal?.addEventListener('abort', leave)
  const recent = createRecent()
  let wake = (): void => undefined
  const onEvent = (event: ExecutionEvent): void => {
    call.onEvent?.(event)
    if (recent.add(event)) wake()
  }
  let ended: CodeResult | undefined
  const ending = run({ ...call, signal: leaving.signal, onEvent }).then((result) => {
    ended = result
    wake()
  })
  try {
    for (;;) {
      await new Promise<void>((resolve) => {
        wake = resolve
        if (ended !== undefined || recent.isNew()) resolve()
      })
      // Waits up to 100 ms, because the final result may follow at once. If it does not, the preliminary
      // result contains the output of that time.
      if (ended === undefined) await Promise.race([ending, later(PAUSE_MS)])
      if (ended !== undefined) break
      yield recent.take()
    }
    yield ended
  } finally {
    call.signal?.removeEventListener('abort', leave)
    leaving.abort(new Error('The consumer of the results stopped early.'))
  }
}

const later = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms))

interface Recent {
  /** Whether the event changes what is shown. */
  add(event: ExecutionEvent): boolean
  isNew(): boolean
  take(): CodeResult
}

function createRecent(): Recent {
  const texts = { stdout: '', stderr: '' }
  const bytes = { stdout: 0, stderr: 0 }
  let isNew = false
  return {
    add(event) {
      if (event.type !== 'output' && event.type !== 'started') return false
      isNew = true
      if (event.type === 'started') return true
      const { stream, text } = event
      bytes[stream] += new TextEncoder().encode(text).length
      texts[stream] = (texts[stream] + text).slice(-RECENT_CHARS)
      return true
    },
    isNew: () => isNew,
    take() {
      isNew = false
      return emptyResult('running', {
        ...texts,
        stdout_bytes: bytes.stdout,
        stderr_bytes: bytes.stderr,
        stdout_truncated: texts.stdout.length < bytes.stdout,
        stderr_truncated: texts.stderr.length < bytes.stderr,
      })
    },
  }
}
