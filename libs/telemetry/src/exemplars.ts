/**
 * Exemplars: for each bucket of a histogram, the last sent trace that fell into it. They lead from a figure
 * to an execution. The SDK records none (sdk-metrics 3.1), so these are added to the OpenMetrics text.
 */
import type { Attributes } from '@opentelemetry/api'
import type { AttemptRecord } from '@cofferdam/contract'
import type { MetricName } from './names.ts'
import { isInShare, type SamplingRules } from './trace-decision.ts'

/**
 * The most exemplars. There are never more than 3,258: the run time has 15 endings, 12 backends and 18
 * buckets, and the wait has 18 buckets.
 */
const MOST = 4096

export interface Exemplar {
  traceId: string
  value: number
  atMs: number
}

export interface Exemplars {
  /** Stores the attempt's trace for the bucket of `value`, if that trace is sent. */
  note(
    metric: MetricName,
    attributes: Attributes,
    boundaries: readonly number[],
    of: NotedAttempt,
    value: number,
  ): void
  /** The exemplar of the bucket up to `le` (`+Inf` for the last one), or null. */
  find(metric: string, attributes: Attributes, le: number | '+Inf'): Exemplar | null
}

type NotedAttempt = Pick<AttemptRecord, 'result'>

/** `rules` decide which traces are sent (trace-decision.ts). */
export function createExemplars(rules: SamplingRules, now: () => number): Exemplars {
  const kept = new Map<string, Exemplar>()
  const isSent = ({ result }: NotedAttempt, traceId: string): boolean =>
    result.ending !== 'ok' ||
    Math.max(result.duration_ms, result.queue_ms) >= rules.slowMs ||
    isInShare(traceId, rules.ratio)
  return {
    note(metric, attributes, boundaries, attempt, value) {
      const traceId = attempt.result.trace_id
      if (traceId == null || !isSent(attempt, traceId)) return
      const key = keyOf(metric, attributes, boundaries.find((bound) => value <= bound) ?? '+Inf')
      if (kept.size < MOST || kept.has(key)) kept.set(key, { traceId, value, atMs: now() })
    },
    find: (metric, attributes, le) => kept.get(keyOf(metric, attributes, le)) ?? null,
  }
}

/** The values are enough for a key, because attributes are always recorded in the same order. */
const keyOf = (metric: string, attributes: Attributes, le: number | '+Inf'): string =>
  [metric, ...Object.values(attributes), le].join('\n')
