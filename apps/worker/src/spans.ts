/** The worker's spans: one consumer span per attempt, whose parent is the producer's traceparent. */
import type { Ending, WorkerId } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { ATTRIBUTES, contextFromTraceparent, SPANS, withSpan, type SpanName } from '@cofferdam/telemetry'
import { isSpanContextValid, SpanKind, trace } from '@opentelemetry/api'

const tracer = trace.getTracer('cofferdam.worker')

/** Runs `work` inside the `cofferdam.execution` span of this attempt. */
export function inExecutionSpan(taken: Taken, workerId: WorkerId, work: () => Promise<void>): Promise<void> {
  const attributes = {
    [ATTRIBUTES.messagingSystem]: 'bullmq',
    [ATTRIBUTES.messagingOperationType]: 'process',
    [ATTRIBUTES.messagingDestination]: taken.lane,
    [ATTRIBUTES.messagingMessageId]: taken.executionId,
    [ATTRIBUTES.executionId]: taken.executionId,
    [ATTRIBUTES.attempt]: taken.attempt,
    [ATTRIBUTES.tenantId]: taken.request.tenant_id,
    [ATTRIBUTES.agentId]: taken.request.agent_id,
    [ATTRIBUTES.workerId]: workerId,
    // Queue wait has no span of its own: it is the gap before this one.
    [ATTRIBUTES.queueWaitMs]: Math.max(0, taken.takenAtMs - taken.enqueuedAtMs),
  }
  return withSpan(tracer, SPANS.execution, attributes, work, {
    kind: SpanKind.CONSUMER,
    parent: contextFromTraceparent(taken.traceparent),
  })
}

/** Runs `work` inside a child span of the active one. */
export const inSpan = <T>(name: SpanName, work: () => Promise<T>): Promise<T> =>
  withSpan(tracer, name, {}, work)

/** Says on the attempt's span how it ended: what is sent to the collector is decided by it. */
export const markEnding = (ending: Ending): void =>
  void trace.getActiveSpan()?.setAttribute(ATTRIBUTES.ending, ending)

/** The active trace's id; null when nothing traces. */
export function currentTraceId(): string | null {
  const spanContext = trace.getActiveSpan()?.spanContext()
  return spanContext !== undefined && isSpanContextValid(spanContext) ? spanContext.traceId : null
}
