/** The spans of an execution, as GET /v1/executions/{id}/trace returns them. */
import { z } from 'zod'
import { executionIdSchema } from './ids.ts'

/** At most eight parts of an execution's trace (requests and attempts) are kept, with 128 spans each. */
const MAX_SPANS = 1024

const traceId = z.string().meta({
  description: 'The trace, 32 hex digits.',
  example: '4bf92f3577b34da6a3ce929d0e0e4736',
})
const attributes = z.record(z.string(), z.unknown()).meta({
  description: 'Facts by name (docs/reference/telemetry.md).',
  example: { 'cofferdam.backend': 'docker' },
})

export const traceSpanSchema = z.strictObject({
  trace_id: traceId,
  span_id: z.string().meta({ description: 'The span, 16 hex digits.', example: '00f067aa0ba902b7' }),
  parent_span_id: z.string().nullable().meta({
    description: 'Its parent. Null for the root span. May name a span that is not in the answer.',
    example: '53995c3f42cd8ad8',
  }),
  name: z.string().meta({ description: 'What was done.', example: 'program.run' }),
  kind: z.enum(['internal', 'server', 'client', 'producer', 'consumer']).meta({
    description: 'Kind of the span, as OpenTelemetry defines it.',
  }),
  service: z.string().meta({
    description: 'The process: cofferdam-api or cofferdam-worker.',
    example: 'cofferdam-worker',
  }),
  start_ms: z.number().meta({
    description: 'Milliseconds since the epoch, with fractions.',
    example: 1_763_640_000_000.25,
  }),
  duration_ms: z.number().meta({ description: 'Milliseconds, with fractions.', example: 82.1 }),
  status: z.enum(['unset', 'ok', 'error']).meta({ description: 'Whether it failed.' }),
  status_message: z.string().nullable().meta({
    description: 'Why it failed. Null for keys of tenants, because it may contain details for operators.',
    example: 'No Docker daemon answers.',
  }),
  attributes,
  events: z
    .array(
      z.strictObject({
        name: z.string().meta({ description: 'What happened.', example: 'soft_timeout' }),
        at_ms: z.number().meta({
          description: 'Milliseconds since the epoch, with fractions.',
          example: 1_763_640_000_041.5,
        }),
        attributes,
      }),
    )
    .meta({ description: 'What happened during the span.' }),
})
export type TraceSpan = z.infer<typeof traceSpanSchema>

export const executionTraceSchema = z.strictObject({
  execution_id: executionIdSchema.meta({ description: 'The execution.' }),
  trace_id: traceId.nullable().meta({ description: 'The trace. Null when none was recorded yet.' }),
  spans: z.array(traceSpanSchema).max(MAX_SPANS).meta({
    description: 'The recorded spans, parents before children. Empty when none were recorded yet.',
  }),
})
export type ExecutionTrace = z.infer<typeof executionTraceSchema>
