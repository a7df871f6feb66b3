/** What telemetry is started with, and what it offers. */
import type { Meter, Tracer } from '@opentelemetry/api'
import type { Instruments } from './instruments.ts'
import type { RecentSpan } from './recent-spans.ts'

export interface TelemetryOptions {
  /** `service.name`, such as `cofferdam-worker`. */
  service: string
  /** `service.version`: the version of the app's package. */
  version: string
  /** `service.instance.id`, such as the worker ID. Default: a new UUID. */
  instance?: string
  /** Base URL of an OTLP/HTTP receiver, such as `http://127.0.0.1:4318`. Default: nothing is exported. */
  otlpEndpoint?: string
  /** Redacts secrets in all exported and shown text. */
  redact: (text: string) => string
  /**
   * Share of successful executions that is sent to the collector, 0-1. Failures, refusals and slow ones are
   * always sent. Default 1. If the parent decided not to record (`traceparent` ends in -00), nothing is sent.
   */
  sampleRatio?: number
  /** An execution that runs or waits this long is slow. Default 10,000. */
  slowMs?: number
  /** Spans kept for `recentSpans`. 0 keeps none. Default 8,192. */
  recentSpans?: number
  /** Time between exports of metrics. Default 15,000. */
  metricsIntervalMs?: number
  /** Called once per outage of the endpoint. */
  logger?: { warn(facts: Record<string, unknown>, message: string): void }
  /** Default Date.now. */
  now?: () => number
}

/** One process's part of an execution's trace. */
export interface EndedTrace {
  executionId: string
  failed: boolean
  /** The redacted spans, parents before children. Costs some 10 µs per span, so call it only when needed. */
  read(): RecentSpan[]
}

export interface Telemetry extends AsyncDisposable {
  /** True for the process's global telemetry (the first one started), which libs use. */
  readonly isGlobal: boolean
  readonly instruments: Instruments
  tracer(name: string): Tracer
  meter(name: string): Meter
  /** Ended spans of a trace in this process, redacted, parents before children. */
  recentSpans(traceId: string): RecentSpan[]
  /** Calls `listener` with each execution's complete spans, sent or not. Returns a function to stop. */
  onTrace(listener: (trace: EndedTrace) => void): () => void
  /** The body of /metrics in the format for `accept`. Never throws: unreadable metrics are omitted. */
  prometheus(accept?: string): Promise<{ contentType: string; body: string }>
  /** Exports what is buffered, within 3 s. Never throws. */
  forceFlush(): Promise<void>
  /** Flushes and stops within 3 s. Idempotent. Never throws. */
  shutdown(): Promise<void>
}
