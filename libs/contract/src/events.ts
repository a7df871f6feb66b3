/** Live events of one execution, in order. `id` is opaque: the Last-Event-ID of server-sent events. */
import { z } from 'zod'
import { endingSchema, exitStatusSchema } from './endings.ts'
import { BOUNDS } from './limits.ts'

export const executionEventSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('queued'), at_ms: z.int() }),
  z.strictObject({
    type: z.literal('started'),
    at_ms: z.int(),
    attempt: z.int(),
    backend: z.string(),
    isolation: z.string(),
  }),
  z.strictObject({
    type: z.literal('output'),
    at_ms: z.int(),
    stream: z.enum(['stdout', 'stderr']),
    text: z.string(),
  }),
  z.strictObject({
    type: z.literal('progress'),
    at_ms: z.int(),
    fraction: z.number().min(0).max(1),
    message: z.string().max(BOUNDS.progressMessageLength),
  }),
  z.strictObject({ type: z.literal('notice'), at_ms: z.int(), message: z.string() }),
  z.strictObject({
    type: z.literal('ended'),
    at_ms: z.int(),
    attempt: z.int(),
    ending: endingSchema,
    exit_status: exitStatusSchema,
    exit_code: z.int().nullable(),
  }),
])
export type ExecutionEvent = z.infer<typeof executionEventSchema>
export interface StoredEvent {
  id: string
  event: ExecutionEvent
}
