/**
 * Live events of one execution, in order. `id` is opaque. Clients of server-sent events send it back as
 * Last-Event-ID to resume.
 */
import { z } from 'zod'
import { endingSchema, exitStatusSchema } from './endings.ts'
import { BOUNDS } from './limits.ts'

const atMs = z.int().meta({ description: 'Milliseconds since the epoch.', example: 1_763_640_000_000 })
const attempt = z.int().meta({ description: 'Number of the attempt, from 1.', example: 1 })
const type = <Type extends string>(word: Type, description: string) => z.literal(word).meta({ description })

export const executionEventSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: type('queued', 'It waits for a worker.'), at_ms: atMs }),
  z.strictObject({
    type: type('started', 'An attempt has a sandbox and begins.'),
    at_ms: atMs,
    attempt,
    backend: z.string().meta({ description: 'The backend that runs it.', example: 'docker' }),
    isolation: z
      .string()
      .meta({ description: 'How strongly the sandbox is isolated.', example: 'container' }),
  }),
  z.strictObject({
    type: type('output', 'The program wrote something.'),
    at_ms: atMs,
    stream: z.enum(['stdout', 'stderr']).meta({ description: 'Where it wrote.' }),
    text: z.string().meta({ description: 'What it wrote, redacted.', example: '2\n' }),
  }),
  z.strictObject({
    type: type('progress', 'The program reported its progress.'),
    at_ms: atMs,
    fraction: z.number().min(0).max(1).meta({ description: 'Share that is done, 0 to 1.', example: 0.4 }),
    message: z.string().max(BOUNDS.progressMessageLength).meta({
      description: 'What the program says, at most 200 characters.',
      example: '40 of 100 files',
    }),
  }),
  z.strictObject({
    type: type('notice', 'Something that the caller should know.'),
    at_ms: atMs,
    message: z.string().meta({ description: 'The notice.', example: 'Waits for room. e2b has no capacity.' }),
  }),
  z.strictObject({
    type: type('ended', 'An attempt ended. The last event, unless another attempt follows.'),
    at_ms: atMs,
    attempt,
    ending: endingSchema.meta({ description: 'How it ended, exactly.' }),
    exit_status: exitStatusSchema.meta({ description: 'Coarse class of the ending.' }),
    exit_code: z.int().nullable().meta({
      description: 'Exit status of the program. Null if a signal killed it or nothing ran.',
      example: 0,
    }),
  }),
])
export type ExecutionEvent = z.infer<typeof executionEventSchema>
export interface StoredEvent {
  id: string
  event: ExecutionEvent
}
