/** Names and helpers that need @opentelemetry/api alone: importing this loads neither the SDK nor the logger. */
export {
  createInstruments,
  type Instruments,
  type MemoryReading,
  type QueueReading,
  type SlotEvent,
} from './instruments.ts'
export { ATTRIBUTES, EVENTS, METRICS, SPANS, type MetricName, type SpanName } from './names.ts'
export { contextFromTraceparent, traceparentOf } from './traceparent.ts'
export { recordError, withSpan } from './with-span.ts'
