/** Runs work inside a span, which ends on every path and records exceptions. */
import { isCofferdamError } from '@cofferdam/contract'
import {
  context,
  SpanStatusCode,
  type Attributes,
  type Context,
  type Span,
  type SpanKind,
  type Tracer,
} from '@opentelemetry/api'
import { ATTRIBUTES } from './names.ts'

/**
 * Runs `fn` with a new active span and then ends the span. An exception of `fn` is recorded and rethrown. It
 * is recorded unredacted, because every exporter redacts its message (redact-span.ts).
 *
 * @example await withSpan(tracer, SPANS.admission, {}, () => admission.admit(key))
 */
export async function withSpan<T>(
  tracer: Tracer,
  name: string,
  attributes: Attributes,
  fn: (span: Span) => Promise<T> | T,
  options: { kind?: SpanKind; /** Default: the active context. */ parent?: Context } = {},
): Promise<T> {
  const { parent = context.active(), ...rest } = options
  return tracer.startActiveSpan(name, { attributes, ...rest }, parent, async (span) => {
    try {
      return await fn(span)
    } catch (error) {
      recordError(span, error)
      throw error
    } finally {
      span.end()
    }
  })
}

/** Marks a span as failed with an exception. Never throws. */
export function recordError(span: Span, error: unknown): void {
  try {
    const { type, message } = describe(error)
    span.setAttribute(ATTRIBUTES.errorType, type)
    span.setStatus({ code: SpanStatusCode.ERROR, message })
    span.recordException(error instanceof Error ? error : { name: type, message })
  } catch {
    // The message or stack may be a getter that throws. The span then gets the error status, but no
    // exception.
    span.setStatus({ code: SpanStatusCode.ERROR })
  }
}

function describe(error: unknown): { type: string; message: string } {
  if (isCofferdamError(error)) return { type: error.code, message: error.message }
  if (error instanceof Error) return { type: error.name, message: error.message }
  return { type: typeof error, message: typeof error === 'string' ? error : `a thrown ${typeof error}` }
}
