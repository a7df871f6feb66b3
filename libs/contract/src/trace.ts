/** The spans of an execution, as GET /v1/executions/{id}/trace returns them. */
import { z } from 'zod'
import { executionIdSchema } from './ids.ts'

/** Eight parts of an execution are kept, with 128 spans each. */
const MAX_SPANS = 1024

export const traceSpanSchema = z.strictObject({
  trace_id: z.string(),
  span_id: z.string(),
  /** Null for the root span. May name a span that is not in the answer. */
  parent_span_id: z.string().nullable(),
  name: z.string(),
  kind: z.enum(['internal', 'server', 'client', 'producer', 'consumer']),
  /** The process: `cofferdam-api` or `cofferdam-worker`. */
  service: z.string(),
  /** Milliseconds since the epoch, with fractions. */
  start_ms: z.number(),
  duration_ms: z.number(),
  status: z.enum(['unset', 'ok', 'error']),
  /** Null for keys of tenants, because it may contain details for operators. */
  status_message: z.string().nullable(),
  attributes: z.record(z.string(), z.unknown()),
  events: z.array(
    z.strictObject({ name: z.string(), at_ms: z.number(), attributes: z.record(z.string(), z.unknown()) }),
  ),
})
export type TraceSpan = z.infer<typeof traceSpanSchema>

/** The recorded spans of an execution, parents before children. Empty when none were recorded yet. */
export const executionTraceSchema = z.strictObject({
  execution_id: executionIdSchema,
  trace_id: z.string().nullable(),
  spans: z.array(traceSpanSchema).max(MAX_SPANS),
})
export type ExecutionTrace = z.infer<typeof executionTraceSchema>
