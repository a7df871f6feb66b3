/** The answer to an enqueue, and the state of an execution. */
import { z } from 'zod'
import { executionIdSchema } from './ids.ts'
import { BOUNDS } from './limits.ts'
import { resultSchema } from './result.ts'

export const EXECUTION_STATUSES = ['delayed', 'queued', 'running', 'ended'] as const

export const progressSchema = z.strictObject({
  fraction: z.number().min(0).max(1),
  message: z.string().max(BOUNDS.progressMessageLength),
  at: z.iso.datetime(),
})

export const CALLBACK_STATES = ['waiting', 'sending', 'delivered', 'failed'] as const
export const callbackStatusSchema = z.strictObject({
  /** `waiting`: the execution has not ended. `sending`: retried until accepted, for at most a day. */
  state: z.enum(CALLBACK_STATES),
  attempts: z.int().min(0),
  /** HTTP status of the last answer, or null. */
  last_status: z.int().nullable(),
  last_error: z.string().max(500).nullable(),
})
export type CallbackStatus = z.infer<typeof callbackStatusSchema>

/** `result` is set once the execution has ended. */
export const executionStateSchema = z.strictObject({
  execution_id: executionIdSchema,
  tenant_id: z.string(),
  agent_id: z.string(),
  status: z.enum(EXECUTION_STATUSES),
  attempt: z.int().min(0),
  enqueued_at: z.iso.datetime(),
  started_at: z.iso.datetime().nullable(),
  /** Executions of the fleet that should start before this one (0 when it is next). Null unless queued. */
  position: z.int().min(0).nullable(),
  eta_ms: z.int().min(0).nullable(),
  /** The program's last progress report. Absent without one, and from an hour after the end. */
  progress: progressSchema.optional(),
  /** Delivery to `callback_url`. Absent without one, and from seven days after the end. */
  callback: callbackStatusSchema.optional(),
  result: resultSchema.nullable(),
})
export type ExecutionState = z.infer<typeof executionStateSchema>

export const acceptedSchema = z.strictObject({
  execution_id: executionIdSchema,
  status: z.enum(EXECUTION_STATUSES),
  position: z.int().min(0).nullable(),
  eta_ms: z.int().min(0).nullable(),
  /** True when the idempotency key belongs to an execution that already existed. */
  deduplicated: z.boolean(),
})
export type Accepted = z.infer<typeof acceptedSchema>
