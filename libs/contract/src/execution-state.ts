/** The answer to an enqueue, and the state of an execution. */
import { z } from 'zod'
import { executionIdSchema } from './ids.ts'
import { BOUNDS } from './limits.ts'
import { timeSchema } from './name.ts'
import { resultSchema } from './result.ts'

export const EXECUTION_STATUSES = ['delayed', 'queued', 'running', 'ended'] as const

export const progressSchema = z.strictObject({
  fraction: z.number().min(0).max(1).meta({ description: 'Share that is done, 0 to 1.', example: 0.4 }),
  message: z.string().max(BOUNDS.progressMessageLength).meta({
    description: 'What the program says, at most 200 characters.',
    example: '40 of 100 files',
  }),
  at: timeSchema.meta({ description: 'When the program reported it.' }),
})

export const CALLBACK_STATES = ['waiting', 'sending', 'delivered', 'failed'] as const
export const callbackStatusSchema = z.strictObject({
  state: z.enum(CALLBACK_STATES).meta({
    description:
      'waiting: the execution has not ended. sending: it is retried until accepted, for at most a day.',
  }),
  attempts: z.int().min(0).meta({ description: 'Requests that were sent.', example: 1 }),
  last_status: z.int().nullable().meta({
    description: 'HTTP status of the last answer. Null if there was none.',
    example: 200,
  }),
  last_error: z.string().max(500).nullable().meta({
    description: 'Why the last request failed. Null if it did not.',
    example: 'The receiver did not answer in 15 s.',
  }),
})
export type CallbackStatus = z.infer<typeof callbackStatusSchema>

const statusSchema = z.enum(EXECUTION_STATUSES).meta({
  description:
    'delayed: it cannot start yet. queued: it waits for a worker. running: a worker has it. ended: it has ' +
    'a result.',
})

const positionSchema = z.int().min(0).nullable().meta({
  description:
    'Executions of the fleet that should start before this one (0 when it is next). Null unless queued.',
  example: 3,
})

const etaSchema = z.int().min(0).nullable().meta({
  description:
    'Time until it should start, milliseconds. Null if it is not queued, or if the time is unknown.',
  example: 1200,
})

export const executionStateSchema = z.strictObject({
  execution_id: executionIdSchema.meta({ description: 'The execution.' }),
  tenant_id: z.string().meta({ description: 'Its tenant.', example: 'demo' }),
  agent_id: z.string().meta({ description: 'Its agent.', example: 'analyst' }),
  status: statusSchema,
  rerun_of: executionIdSchema.optional().meta({
    description: 'The execution that it runs again. Absent if it is no rerun.',
  }),
  program_kind: z
    .string()
    .max(64)
    .optional()
    .meta({
      description:
        'What it runs: script/LANGUAGE, command, tests, install or files. Absent if an older release ' +
        'accepted it.',
      example: 'script/python',
    }),
  session_key: z.string().optional().meta({
    description: 'The session that it shares. Absent without one, and after the end: see result.session.',
    example: 'chat-42',
  }),
  backend: z
    .string()
    .optional()
    .meta({
      description:
        'The backend that runs it. Before it runs, the one that the request names: absent with auto. Absent ' +
        'after the end: see result.backend.',
      example: 'docker',
    }),
  attempt: z
    .int()
    .min(0)
    .meta({ description: 'Number of the last attempt. 0 before the first.', example: 1 }),
  enqueued_at: timeSchema.meta({ description: 'When it was accepted.' }),
  started_at: timeSchema.nullable().meta({ description: 'When a worker took it. Null before that.' }),
  position: positionSchema,
  eta_ms: etaSchema,
  progress: progressSchema.optional().meta({
    description: 'The program’s last progress report. Absent without one, and from an hour after the end.',
  }),
  callback: callbackStatusSchema.optional().meta({
    description: 'Delivery to callback_url. Absent without one, and from seven days after the end.',
  }),
  result: resultSchema.nullable().meta({ description: 'The result. Null until the execution has ended.' }),
})
export type ExecutionState = z.infer<typeof executionStateSchema>

/** The answer to an enqueue. */
export const acceptedSchema = z.strictObject({
  execution_id: executionIdSchema.meta({ description: 'The execution.' }),
  status: statusSchema,
  position: positionSchema,
  eta_ms: etaSchema,
  deduplicated: z.boolean().meta({
    description: 'True when the idempotency key belongs to an execution that already existed.',
  }),
})
export type Accepted = z.infer<typeof acceptedSchema>
