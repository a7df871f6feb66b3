/** The worker's spans: one consumer span per attempt, whose parent is the span of the producer. */
import type { Ending, WorkerId } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import {
  ATTRIBUTES,
  contextFromTraceparent,
  recordError,
  spanOfLane,
  SPANS,
  withSpan,
  type SpanName,
} from '@cofferdam/telemetry'
import { isSpanContextValid, SpanKind, SpanStatusCode, trace, type Tracer } from '@opentelemetry/api'

/**
 * Fetched on each use: a cached tracer would stay with the first telemetry of the process, even after that
 * has ended.
 */
const tracer = (): Tracer => trace.getTracer('@cofferdam/worker')

/** Runs `work` inside the `process {lane}` span of this attempt. */
export function inExecutionSpan(taken: Taken, workerId: WorkerId, work: () => Promise<void>): Promise<void> {
  const attributes = {
    [ATTRIBUTES.messagingSystem]: 'bullmq',
    [ATTRIBUTES.messagingOperationName]: 'process',
    [ATTRIBUTES.messagingOperationType]: 'process',
    [ATTRIBUTES.messagingDestination]: taken.lane,
    [ATTRIBUTES.messagingMessageId]: taken.executionId,
    [ATTRIBUTES.executionId]: taken.executionId,
    [ATTRIBUTES.attempt]: taken.attempt,
    [ATTRIBUTES.tenantId]: taken.request.tenant_id,
    [ATTRIBUTES.agentId]: taken.request.agent_id,
    [ATTRIBUTES.workerId]: workerId,
    // Queue wait has no span of its own. It is the gap before this span.
    [ATTRIBUTES.queueWaitMs]: Math.max(0, taken.takenAtMs - taken.enqueuedAtMs),
  }
  return withSpan(tracer(), spanOfLane(SPANS.execution, taken.lane), attributes, work, {
    kind: SpanKind.CONSUMER,
    parent: contextFromTraceparent(taken.traceparent),
  })
}

/** Runs `work` in a child span. The parent stays active, because nothing in `work` has its own spans. */
export async function inSpan<T>(name: SpanName, work: () => Promise<T>): Promise<T> {
  const span = tracer().startSpan(name)
  try {
    return await work()
  } catch (error) {
    recordError(span, error)
    throw error
  } finally {
    span.end()
  }
}

/** Adds the ending to the attempt's span. The ending decides whether the trace is sent to the collector. */
export function markEnding(ending: Ending): void {
  const span = trace.getActiveSpan()
  span?.setAttribute(ATTRIBUTES.ending, ending)
  if (ending === 'ok') return
  span?.setAttribute(ATTRIBUTES.errorType, ending)
  span?.setStatus({ code: SpanStatusCode.ERROR, message: ending })
}

/** The ID of the active trace. Null without tracing. */
export function currentTraceId(): string | null {
  const spanContext = trace.getActiveSpan()?.spanContext()
  return spanContext !== undefined && isSpanContextValid(spanContext) ? spanContext.traceId : null
}
