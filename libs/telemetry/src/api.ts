/** Names and helpers that need only @opentelemetry/api. Importing this loads no SDK and no logger. */
export { createInstruments, type Instruments } from './instruments.ts'
export type {
  DispatcherPoolReading,
  FleetReading,
  MemoryReading,
  QueueReading,
  SlotEvent,
  WorkerReading,
} from './readings.ts'
export { ATTRIBUTE_FACTS, EVENT_FACTS, SPAN_FACTS, type SpanFacts } from './catalog.ts'
export { METRIC_FACTS } from './metric-catalog.ts'
export type { MetricFacts } from './metric-facts.ts'
export { prometheusName } from './prometheus-name.ts'
export type { LogFacts } from './log-facts.ts'
export { LOG_FACTS } from './log-records.ts'
export { ATTRIBUTES, EVENTS, METRICS, SPANS, spanOfLane, type MetricName, type SpanName } from './names.ts'
export { contextFromTraceparent, traceparentOf } from './traceparent.ts'
export { recordError, withSpan } from './with-span.ts'
export { spansInTreeOrder, type PlacedSpan } from './tree-order.ts'
