/**
 * Whether the spans of one unit (an execution's attempt in a worker, a request in the API) are sent, decided when its
 * ending is known: what failed, was refused or was slow always is, of the rest a share by trace id, so that every
 * process keeps the same traces.
 */
import { SpanStatusCode } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace'
import { ATTRIBUTES, EVENTS } from './names.ts'

export type TraceDecision = 'failed' | 'slow' | 'ratio' | 'dropped'

export interface SamplingRules {
  /** Share of what went well that is kept, 0 to 1. */
  ratio: number
  /** A unit, or its wait in the queue, is slow from here on. */
  slowMs: number
}

/** Spans take longer than this only where somebody waits for them: the default hard deadline is 30 s. */
export const DEFAULT_SLOW_MS = 10_000

/** Decides over a unit whose last span, the root, has ended. */
export function decideTrace(
  root: ReadableSpan,
  spans: readonly ReadableSpan[],
  rules: SamplingRules,
): TraceDecision {
  if (spans.some(hasFailed)) return 'failed'
  const [seconds, nanos] = root.duration
  // One that is held back is taken again and again: its wait counts once, where it ends.
  const waited =
    root.attributes[ATTRIBUTES.ending] === undefined ? 0 : root.attributes[ATTRIBUTES.queueWaitMs]
  const slowest = Math.max(seconds * 1000 + nanos / 1e6, typeof waited === 'number' ? waited : 0)
  if (slowest >= rules.slowMs) return 'slow'
  return isInShare(root.spanContext().traceId, rules.ratio) ? 'ratio' : 'dropped'
}

/** An error, an ending that is not `ok` (refusals too), or a deadline that passed. */
function hasFailed(span: ReadableSpan): boolean {
  const ending = span.attributes[ATTRIBUTES.ending]
  return (
    span.status.code === SpanStatusCode.ERROR ||
    span.attributes[ATTRIBUTES.errorType] !== undefined ||
    (ending !== undefined && ending !== 'ok') ||
    span.events.some(({ name }) => name === EVENTS.softTimeout || name === EVENTS.hardTimeout)
  )
}

/** The last 56 bits of a trace id are random (W3C trace context, level 2); 32 of them are enough for a share. */
export const isInShare = (traceId: string, ratio: number): boolean =>
  Number.parseInt(traceId.slice(-8), 16) < ratio * 2 ** 32
