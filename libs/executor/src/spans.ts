/**
 * The spans of one attempt, below the worker's active span (or the producer's traceparent):
 * `sandbox.acquire`, `sandbox.prepare`, `program.run`.
 *
 * `program.run` exists before the sandbox is opened, because its id goes into the environment with which the
 * sandbox is made: the program's own spans are its children. Its time before the hand-over is marked by the
 * event `program.started`. If no program was handed over it is never ended, and so never exported.
 */
import { formatTraceparent, isCofferdamError, parseTraceparent } from '@cofferdam/contract'
import { SpanStatusCode, context, trace, type Attributes, type Context, type Span } from '@opentelemetry/api'

/** Span names. */
export const SPAN = {
  acquire: 'sandbox.acquire',
  prepare: 'sandbox.prepare',
  run: 'program.run',
  workspace: 'workspace.take',
} as const

/** Attribute names of these spans. */
export const ATTRIBUTE = {
  executionId: 'cofferdam.execution.id',
  attempt: 'cofferdam.attempt',
  backend: 'cofferdam.backend',
  isolation: 'cofferdam.isolation',
  warm: 'cofferdam.warm',
  vendorRef: 'cofferdam.vendor.ref',
  ending: 'cofferdam.ending',
  /** The ending, or the code of what was thrown. */
  errorType: 'error.type',
  exitCode: 'process.exit.code',
  reason: 'cofferdam.reason',
} as const

/** Event names of `sandbox.acquire` and `program.run`. */
export const EVENT = {
  /** A preferred backend could not open a sandbox; the next one is tried. */
  passedOver: 'backend.passed_over',
  started: 'program.started',
  soft: 'soft_timeout',
  hard: 'hard_timeout',
} as const

export interface AttemptSpans {
  /** `TRACEPARENT` of the program; null when nothing traces. */
  readonly traceparent: string | null
  readonly run: Span
  /** Runs `work` in a child span of the attempt; records what it throws. */
  within<T>(name: string, work: (span: Span) => Promise<T>): Promise<T>
}

/** Begins the spans of one attempt. */
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
