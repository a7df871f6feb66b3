/** What an SDK tells about one call. Everything is optional, because no SDK has all of it. */
import type { ExecutionEvent } from '@cofferdam/client'

export interface ToolCall {
  /** Cancels the execution. */
  signal?: AbortSignal | undefined
  /** The SDK's ID of the call, for the audit row. */
  toolCallId?: string | undefined
  /**
   * W3C trace context of the caller. Without it, the client sends that of the active OpenTelemetry span, if
   * the application uses OpenTelemetry.
   */
  traceparent?: string | undefined
  /** Live events: place in the queue, start, output, progress. For a user interface, never for the model. */
  onEvent?: ((event: ExecutionEvent) => void) | undefined
  /**
   * The SDK may make the same call again, for example when it resumes a run. Calls with the same ID and input
   * are then one execution for 24 hours, unless the ID may not be unique (`isUnique` in call-ids.ts).
   */
  mayRepeat?: boolean | undefined
  /** The SDK's own name of the conversation, such as `thread_id`. */
  conversation?: string | undefined
  /** What the application gave to the SDK's run, for the function in `session`. */
  context?: unknown
}
