/**
 * Wraps every exporter. Redacts what is exported, and pauses after a failure, so that no time is spent on
 * encoding batches that cannot be delivered.
 *
 *   open ──export failed──► paused for PAUSE_MS (batches are dropped) ──► open
 */
import type { ExportResult } from '@opentelemetry/core'
import { ExportResultCode } from '@opentelemetry/core'
import type { PushMetricExporter } from '@opentelemetry/sdk-metrics'
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace'
import type { GuardText } from './guard-text.ts'
import { redactMetrics } from './redact-metrics.ts'
import { redactSpan } from './redact-span.ts'
import { temporalityOf } from './temporality.ts'

/** A collector restarts within seconds. Until then, batches are dropped instead of kept in memory. */
export const PAUSE_MS = 5000

const PAUSED: ExportResult = {
  code: ExportResultCode.FAILED,
  error: new Error('the endpoint is down; paused'),
}

interface Gate {
  /** The callback for the exporter, or null to drop the batch. */
  pass(done: (result: ExportResult) => void): ((result: ExportResult) => void) | null
}

/** `onDown` is called at the first failure of each outage. `now` is in milliseconds since the epoch. */
export interface GateDeps {
  onDown(error: Error | undefined): void
  now(): number
}

function createGate(deps: GateDeps): Gate {
  let pausedUntilMs = 0
  let down = false
  return {
    pass(done) {
      if (deps.now() < pausedUntilMs) {
        done(PAUSED)
        return null
      }
      return (result) => {
        const failed = result.code !== ExportResultCode.SUCCESS
        if (failed) pausedUntilMs = deps.now() + PAUSE_MS
        if (failed && !down) deps.onDown(result.error)
        down = failed
        done(result)
      }
    },
  }
}

export function redactingSpanExporter(inner: SpanExporter, guard: GuardText, deps: GateDeps): SpanExporter {
  const gate = createGate(deps)
  return {
    export(spans: ReadableSpan[], done) {
      const settle = gate.pass(done)
      if (settle === null) return
      try {
        inner.export(
          spans.map((span) => redactSpan(span, guard)),
          settle,
        )
      } catch (error) {
        settle({ code: ExportResultCode.FAILED, error: toError(error) })
      }
    },
    shutdown: () => inner.shutdown(),
    forceFlush: async () => inner.forceFlush?.(),
  }
}

/** Redacts the labels of metrics, and overrides the exporter's choice of temporality. */
export function redactingMetricExporter(
  inner: PushMetricExporter,
  guard: GuardText,
  deps: GateDeps,
): PushMetricExporter {
  const gate = createGate(deps)
  return {
    export(metrics, done) {
      const settle = gate.pass(done)
      if (settle === null) return
      try {
        inner.export(redactMetrics(metrics, guard), settle)
      } catch (error) {
        settle({ code: ExportResultCode.FAILED, error: toError(error) })
      }
    },
    shutdown: () => inner.shutdown(),
    forceFlush: () => inner.forceFlush(),
    selectAggregationTemporality: temporalityOf,
  }
}

const toError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))
