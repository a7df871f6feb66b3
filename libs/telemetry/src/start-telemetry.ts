/** The door to the SDK: nothing of it is loaded before this is called. */
import type { Meter, Tracer } from '@opentelemetry/api'
import type { Instruments } from './instruments.ts'
import type { RecentSpan } from './recent-spans.ts'

export interface TelemetryOptions {
  /** `service.name`, e.g. `cofferdam-worker`. */
  service: string
  /** `service.version`: of the app's package. */
  version: string
  /** Which of several processes: `service.instance.id`, e.g. the worker id. Default: a new UUID. */
  instance?: string
  /** Base URL of an OTLP/HTTP receiver, e.g. `http://127.0.0.1:4318`. Absent: spans stay in the ring buffer only. */
  otlpEndpoint?: string
  /** Takes secrets out of text; everything that leaves passes it. */
  redact: (text: string) => string
  /**
   * Share of what went well that is sent to the collector, 0-1; failures, refusals and slow ones always are. Default 1.
   * A parent's decision not to record (`traceparent` that ends in -00) is followed whatever happens.
   */
  sampleRatio?: number
  /** What takes or waits as long is slow. Default 10,000. */
  slowMs?: number
  /** Spans kept for `recentSpans`; 0 keeps none, and costs nothing. Default 8,192. */
  recentSpans?: number
  /** Between two exports of metrics. Default 15,000. */
  metricsIntervalMs?: number
  /** Hears once per outage that the endpoint does not take what is sent. */
  logger?: { warn(facts: Record<string, unknown>, message: string): void }
  /** Default Date.now. */
  now?: () => number
}

/** One process's part of an execution's trace. */
export interface EndedTrace {
  executionId: string
  failed: boolean
  /** The spans as they may be shown: redacted, each before its children. Costs some 10 µs a span: not for every one. */
  read(): RecentSpan[]
}

export interface Telemetry extends AsyncDisposable {
  /** True when this is the process's global telemetry: what libs get from @opentelemetry/api. A second one is not. */
  readonly isGlobal: boolean
  /** The fleet's instruments. */
  readonly instruments: Instruments
  tracer(name: string): Tracer
  meter(name: string): Meter
  /** Ended spans of a trace in this process, each before its children, redacted. */
  recentSpans(traceId: string): RecentSpan[]
  /** `listener` hears of every execution whose part in this process is over, sent or not; returns how to stop. */
  onTrace(listener: (trace: EndedTrace) => void): () => void
  /** The body of /metrics, in the form that `accept` asks for. Never throws: what cannot be read is left out. */
  prometheus(accept?: string): Promise<{ contentType: string; body: string }>
  /** Sends what is buffered; gives up after 3 s. Never throws. */
  forceFlush(): Promise<void>
  /** Flushes and stops within 3 s. Idempotent. Never throws. */
  shutdown(): Promise<void>
}

/** Starts tracing and metrics for this process. Throws only for an endpoint that is no URL. */
export async function startTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  const { startSdk } = await import('./sdk.ts')
  return startSdk(options)
}
