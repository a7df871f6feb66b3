/**
 * Sets up the OpenTelemetry SDK. Only startTelemetry loads it, and the exporters only if there is an
 * endpoint.
 *
 *   span ended ─┬─► recent spans (ring buffer) ──read──► guard ─► API
 *               └─► unit, until its ending is known ─┬─► batch ─► redacting exporter ─► OTLP/HTTP
 *                   (trace-units.ts)                 └─► onTrace ──read──► guard ─► trace API
 *   metric ─────┬─► Prometheus text, on request ─► guard
 *               └─► every 15 s ─► redacting exporter ─► OTLP/HTTP
 *
 * A full batch queue drops spans. No execution ever waits for the network here.
 */
import { randomUUID } from 'node:crypto'
import { CofferdamError } from '@cofferdam/contract'
import { context, metrics, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { MeterProvider, PeriodicExportingMetricReader, type IMetricReader } from '@opentelemetry/sdk-metrics'
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TracerProvider,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace'
import { createTextGuard, SCAN_MAX, type GuardText } from './guard-text.ts'
import { createExemplars } from './exemplars.ts'
import { createInstruments } from './instruments.ts'
import { formOf, PrometheusReader, SERIES_PER_INSTRUMENT } from './prometheus.ts'
import { ATTRIBUTES } from './names.ts'
import { createRecentSpans, showSpans } from './recent-spans.ts'
import { redactingMetricExporter, redactingSpanExporter, type GateDeps } from './redacting-exporter.ts'
import type { EndedTrace, Telemetry, TelemetryOptions } from './telemetry.ts'
import { DEFAULT_SLOW_MS } from './trace-decision.ts'
import { createTraceUnits, type EndedUnit } from './trace-units.ts'

/** Longest shutdown or forceFlush. */
export const FLUSH_MS = 3000

/** Longest delivery, with retries. Below FLUSH_MS, so that nothing runs after a shutdown. */
const DELIVERY_MS = 2500

/**
 * Encoding a batch of 512 takes about 5 ms. A full queue of 8,192 spans takes 12 MB. It holds the spans of
 * one second at 1,000 executions/s.
 */
const BATCH = {
  maxExportBatchSize: 512,
  maxQueueSize: 8192,
  scheduledDelayMillis: 1000,
  exportTimeoutMillis: 5000,
}

export async function startSdk(options: TelemetryOptions): Promise<Telemetry> {
  const guard = createTextGuard(options.redact)
  const resource = resourceFromAttributes({
    'service.name': options.service,
    'service.version': options.version,
    'service.instance.id': options.instance ?? randomUUID(),
  })
  const recent = createRecentSpans(options.service, guard, options.recentSpans)
  const rules = { ratio: options.sampleRatio ?? 1, slowMs: options.slowMs ?? DEFAULT_SLOW_MS }
  const otlp =
    options.otlpEndpoint === undefined ? null : await openOtlp(options.otlpEndpoint, options, guard)
  // Without a collector there are no traces that an exemplar could link to.
  const exemplars = otlp === null ? null : createExemplars(rules, options.now ?? Date.now)
  const prometheus = new PrometheusReader(guard, exemplars)

  const meterProvider = new MeterProvider({
    resource,
    readers: [prometheus, ...(otlp === null ? [] : [otlp.metrics])],
  })
  const instruments = createInstruments(meterProvider.getMeter('cofferdam'), exemplars)
  const units = createTraceUnits({
    rules,
    sink: otlp?.spans ?? null,
    onUnit(unit) {
      if (otlp !== null) instruments.traceDecided(unit.decision)
      if (listeners.size > 0) tell(unit)
    },
  })
  const listeners = new Set<(trace: EndedTrace) => void>()
  const tell = ({ root, spans, decision }: EndedUnit): void => {
    const executionId = root.attributes[ATTRIBUTES.executionId]
    if (typeof executionId !== 'string') return
    const read = () => showSpans(spans, options.service, guard)
    for (const listener of listeners) listener({ executionId, failed: decision === 'failed', read })
  }
  const tracerProvider = new TracerProvider({
    resource,
    spanProcessors: options.recentSpans === 0 ? [units] : [recent, units],
    // trace-units.ts decides at the end of a unit what is sent. Only a parent's decision not to record
    // applies at once.
    sampler: new ParentBasedSampler({ root: new AlwaysOnSampler() }),
    spanLimits: {
      attributeValueLengthLimit: SCAN_MAX,
      attributeCountLimit: 64,
      eventCountLimit: 32,
      linkCountLimit: 8,
    },
  })
  const unregister = register(tracerProvider, meterProvider)

  let stopping: Promise<void> | null = null
  const shutdown = (): Promise<void> => {
    stopping ??= bounded([tracerProvider.shutdown(), meterProvider.shutdown()]).finally(() => unregister?.())
    return stopping
  }
  return {
    isGlobal: unregister !== null,
    instruments,
    tracer: (name) => tracerProvider.getTracer(name),
    meter: (name) => meterProvider.getMeter(name),
    onTrace(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    recentSpans: (traceId) => recent.read(traceId),
    async prometheus(accept) {
      const { isOpen, contentType } = formOf(accept)
      const body = await prometheus
        .text(isOpen)
        .catch(
          (error: unknown) => `# metrics cannot be read: ${guard(String(error))}\n${isOpen ? '# EOF\n' : ''}`,
        )
      return { contentType, body }
    },
    forceFlush: () => bounded([tracerProvider.forceFlush(), meterProvider.forceFlush()]),
    shutdown,
    [Symbol.asyncDispose]: shutdown,
  }
}

/**
 * Registers as the process's global telemetry. Returns a function to unregister, or null if the process has a
 * global telemetry already.
 */
function register(tracerProvider: TracerProvider, meterProvider: MeterProvider): (() => void) | null {
  if (!trace.setGlobalTracerProvider(tracerProvider)) return null
  metrics.setGlobalMeterProvider(meterProvider)
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  return () => {
    for (const api of [trace, metrics, context, propagation]) api.disable()
  }
}

async function openOtlp(
  endpoint: string,
  options: TelemetryOptions,
  guard: GuardText,
): Promise<{ spans: SpanProcessor; metrics: IMetricReader }> {
  const [{ OTLPTraceExporter }, { OTLPMetricExporter }] = await Promise.all([
    import('@opentelemetry/exporter-trace-otlp-proto'),
    import('@opentelemetry/exporter-metrics-otlp-proto'),
  ])
  const settings = (signal: string) => ({ url: signalUrl(endpoint, signal), timeoutMillis: DELIVERY_MS })
  const gate = (what: string): GateDeps => ({
    now: options.now ?? Date.now,
    onDown: (error) =>
      options.logger?.warn(
        { err: error, endpoint },
        `${what} cannot be delivered; they are dropped until it answers`,
      ),
  })
  const spans = redactingSpanExporter(new OTLPTraceExporter(settings('traces')), guard, gate('spans'))
  const readings = redactingMetricExporter(
    new OTLPMetricExporter(settings('metrics')),
    guard,
    gate('metrics'),
  )
  return {
    spans: new BatchSpanProcessor({ exporter: spans, ...BATCH }),
    metrics: new PeriodicExportingMetricReader({
      exporter: readings,
      exportIntervalMillis: options.metricsIntervalMs ?? 15_000,
      exportTimeoutMillis: DELIVERY_MS,
      cardinalityLimits: { default: SERIES_PER_INSTRUMENT },
    }),
  }
}

/** The URL of a signal (OTLP/HTTP: `<base>/v1/<signal>`). */
function signalUrl(endpoint: string, signal: string): string {
  const base = URL.parse(endpoint.endsWith('/') ? endpoint : `${endpoint}/`)
  if (base === null || !/^https?:$/.test(base.protocol))
    throw new CofferdamError(
      'config_invalid',
      `OTLP endpoint: expected an http(s) URL, got "${endpoint.slice(0, 200)}"`,
    )
  return new URL(`v1/${signal}`, base).href
}

/** Waits for all, at most FLUSH_MS. Ignores failures of the endpoint. */
async function bounded(work: Promise<unknown>[]): Promise<void> {
  const { promise: tooLong, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, FLUSH_MS)
  await Promise.race([Promise.allSettled(work), tooLong])
  clearTimeout(timer)
}
