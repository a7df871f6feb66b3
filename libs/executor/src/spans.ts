/**
 * The spans of one attempt, below the worker's active span (or the producer's traceparent):
 * `sandbox.acquire`, `sandbox.prepare`, `program.run`.
 *
 * `program.run` starts before the sandbox is opened, because its ID is part of the sandbox's environment: the
 * program's own spans are its children. The event `program.started` marks the hand-over. If no program was
 * handed over, the span is never ended and so never exported.
 */
import { formatTraceparent, isCofferdamError, parseTraceparent } from '@cofferdam/contract'
import { SpanStatusCode, context, trace, type Attributes, type Context, type Span } from '@opentelemetry/api'

export const SPAN = {
  acquire: 'sandbox.acquire',
  prepare: 'sandbox.prepare',
  run: 'program.run',
  workspace: 'workspace.take',
} as const

export const ATTRIBUTE = {
  executionId: 'cofferdam.execution.id',
  attempt: 'cofferdam.attempt',
  backend: 'cofferdam.backend',
  isolation: 'cofferdam.isolation',
  warm: 'cofferdam.warm',
  vendorRef: 'cofferdam.vendor.ref',
  ending: 'cofferdam.ending',
  /** The ending, or the code of the error. */
  errorType: 'error.type',
  exitCode: 'process.exit.code',
  reason: 'cofferdam.reason',
} as const

export const EVENT = {
  /** A preferred backend could not open a sandbox, and the next one is tried. */
  passedOver: 'backend.passed_over',
  started: 'program.started',
  soft: 'soft_timeout',
  hard: 'hard_timeout',
} as const

export interface AttemptSpans {
  /** `TRACEPARENT` of the program. Null without a tracer. */
  readonly traceparent: string | null
  readonly run: Span
  /** Runs `work` in a child span of the attempt, and records what it throws. */
  within<T>(name: string, work: (span: Span) => Promise<T>): Promise<T>
}

export function startAttemptSpans(traceparent: string | null, attributes: Attributes): AttemptSpans {
  const tracer = trace.getTracer('@cofferdam/executor')
  const parent = parentContext(traceparent)
  const run = tracer.startSpan(SPAN.run, { attributes }, parent)
  return {
    run,
    traceparent: formatTraceparent(run.spanContext()) ?? traceparent,
    within: (name, work) =>
      tracer.startActiveSpan(name, { attributes }, parent, async (span) => {
        try {
          return await work(span)
        } catch (error) {
          const type = isCofferdamError(error) ? error.code : error instanceof Error ? error.name : 'error'
          span.setAttribute(ATTRIBUTE.errorType, type)
          span.setStatus({ code: SpanStatusCode.ERROR, message: type })
          throw error
        } finally {
          span.end()
        }
      }),
  }
}

function parentContext(traceparent: string | null): Context {
  const active = context.active()
  if (trace.getSpan(active) !== undefined) return active
  const remote = parseTraceparent(traceparent)
  return remote === null ? active : trace.setSpanContext(active, { ...remote, isRemote: true })
}
