/**
 * Decides whether the spans of one unit are sent: an attempt in a worker, or a request in the API. It decides
 * at the end: failed, refused and slow units are always sent, and a share of the others by trace ID, so that
 * every process sends the same traces.
 */
import { SpanStatusCode } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace'
import { ATTRIBUTES, EVENTS } from './names.ts'

export type TraceDecision = 'failed' | 'slow' | 'ratio' | 'dropped'

export interface SamplingRules {
  /** Share of successful units that is sent, 0 to 1. */
  ratio: number
  /** A unit that runs or was queued this long is slow. */
  slowMs: number
}

/** Default of `slowMs`, a third of the default hard deadline (30 s). */
export const DEFAULT_SLOW_MS = 10_000

/** Decides about a unit whose last span, the root, has ended. */
export function decideTrace(
  root: ReadableSpan,
  spans: readonly ReadableSpan[],
  rules: SamplingRules,
): TraceDecision {
  if (spans.some(hasFailed)) return 'failed'
  const [seconds, nanos] = root.duration
  // Workers claim a deferred execution several times. Its wait counts only once, when it ends.
  const waited =
    root.attributes[ATTRIBUTES.ending] === undefined ? 0 : root.attributes[ATTRIBUTES.queueWaitMs]
  const slowest = Math.max(seconds * 1000 + nanos / 1e6, typeof waited === 'number' ? waited : 0)
  if (slowest >= rules.slowMs) return 'slow'
  return isInShare(root.spanContext().traceId, rules.ratio) ? 'ratio' : 'dropped'
}

/** An error, an ending other than `ok`, which includes refusals, or a passed deadline. */
function hasFailed(span: ReadableSpan): boolean {
  const ending = span.attributes[ATTRIBUTES.ending]
  return (
    span.status.code === SpanStatusCode.ERROR ||
    span.attributes[ATTRIBUTES.errorType] !== undefined ||
    (ending !== undefined && ending !== 'ok') ||
    span.events.some(({ name }) => name === EVENTS.softTimeout || name === EVENTS.hardTimeout)
  )
}

/**
 * The last 56 bits of a trace ID are random (W3C trace context, level 2). The last 32 of them are enough to
 * decide about a share.
 */
export const isInShare = (traceId: string, ratio: number): boolean =>
  Number.parseInt(traceId.slice(-8), 16) < ratio * 2 ** 32
