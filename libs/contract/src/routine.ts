/**
 * A routine is an execution request that runs repeatedly, by a schedule or on demand. This file has what a
 * caller writes, what is stored, and the outcome of each run.
 */
import { z } from 'zod'
import { executionIdSchema, idSchema, uuidv7Hex } from './ids.ts'
import { callbackUrlSchema, executionRequestSchema, nameSchema } from './request.ts'

export type RoutineId = `rtn_${string}`

export const routineIdSchema = idSchema('rtn')

export const newRoutineId = (nowMs?: number): RoutineId => `rtn_${uuidv7Hex(nowMs)}`

/** Use a loop inside one program for shorter intervals, and cron for longer ones. */
const EVERY_MS = { min: 1000, max: 31 * 24 * 3_600_000 } as const

/** IANA names that Intl knows. Offsets such as +02:00 are refused, as they ignore daylight saving time. */
const timeZoneSchema = z
  .string()
  .max(64)
  .refine((name) => /^[A-Za-z]/.test(name) && isTimeZone(name), 'expected a time zone such as Europe/Berlin')

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

/** When a routine is due. libs/routines validates the cron text. */
export const scheduleSchema = z.union([
  z.strictObject({
    /** Five fields, or six with seconds in front. */
    cron: z.string().trim().min(1).max(256),
    time_zone: timeZoneSchema.default('UTC'),
  }),
  z.strictObject({ every_ms: z.int().min(EVERY_MS.min).max(EVERY_MS.max) }),
])
export type Schedule = z.output<typeof scheduleSchema>

/** What happens when a routine is due while an earlier run is not finished. */
export const CONCURRENCY_RULES = ['allow', 'forbid', 'replace'] as const
export const concurrencyRuleSchema = z.enum(CONCURRENCY_RULES)
export type ConcurrencyRule = z.infer<typeof concurrencyRuleSchema>

const nameOfRoutineSchema = z
  .string()
  .min(1)
  .max(200)
  // eslint-disable-next-line no-control-regex
  .refine((text) => !/[\u0000-\u001f\u007f]/.test(text), 'expected no control characters')

/** Fields that a run gets from the routine instead of the stored request. */
const OF_EACH_RUN = ['idempotency_key', 'traceparent', 'delay_ms', 'invocation_source', 'lane'] as const

/**
 * The request as a caller writes it: an execution request without the fields that belong to a single run. It
 * is stored as written, so that a run uses the defaults of its own time.
 */
export const routineRequestSchema = z.unknown().transform((written, context) => {
  const given = typeof written === 'object' && written !== null ? written : {}
  for (const field of OF_EACH_RUN)
    if (field in given && !(field === 'lane' && (given as { lane?: unknown }).lane === 'routine'))
      context.addIssue({ code: 'custom', path: [field], message: 'belongs to one run, not to a routine' })
  const parsed = executionRequestSchema.safeParse({ ...given, lane: 'routine' })
  if (!parsed.success) {
    for (const issue of parsed.error.issues)
      context.addIssue({ code: 'custom', path: issue.path, message: issue.message })
    return z.NEVER
  }
  return given as RoutineRequest
})
/** A request that `executionRequestSchema` accepts with lane `routine`. */
export type RoutineRequest = Omit<
  z.input<typeof executionRequestSchema>,
  'idempotency_key' | 'traceparent' | 'delay_ms' | 'invocation_source'
>

export const routineInputSchema = z.strictObject({
  name: nameOfRoutineSchema,
  request: routineRequestSchema,
  /** Null: runs on demand only. */
  schedule: scheduleSchema.nullable().default(null),
  enabled: z.boolean().default(true),
  concurrency: concurrencyRuleSchema.default('forbid'),
  callback_url: callbackUrlSchema.nullable().default(null),
})
export type RoutineInput = z.output<typeof routineInputSchema>

/** Omitted fields keep their value. */
export const routinePatchSchema = z
  .strictObject({
    name: nameOfRoutineSchema.optional(),
    request: routineRequestSchema.optional(),
    schedule: scheduleSchema.nullable().optional(),
    enabled: z.boolean().optional(),
    concurrency: concurrencyRuleSchema.optional(),
    callback_url: callbackUrlSchema.nullable().optional(),
  })
  .refine((patch) => Object.keys(patch).length > 0, 'expected at least one field')
export type RoutinePatch = z.output<typeof routinePatchSchema>

/** The outcome when a routine was due. */
export const RUN_OUTCOMES = ['enqueued', 'skipped', 'refused'] as const

export const routineRunSchema = z.strictObject({
  /** Null when it was run on demand. */
  scheduled_at: z.iso.datetime().nullable(),
  fired_at: z.iso.datetime(),
  outcome: z.enum(RUN_OUTCOMES),
  /** Why it was skipped or refused, or which runs it replaced. Otherwise null. */
  reason: z.string().max(500).nullable(),
  /** Null unless it was enqueued. */
  execution_id: executionIdSchema.nullable(),
})
export type RoutineRun = z.infer<typeof routineRunSchema>

export const routineSchema = z.strictObject({
  routine_id: routineIdSchema,
  tenant_id: nameSchema,
  agent_id: nameSchema,
  template_id: nameSchema.nullable(),
  name: z.string(),
  request: z.record(z.string(), z.unknown()).meta({ description: 'The request as it was written.' }),
  schedule: scheduleSchema.nullable(),
  enabled: z.boolean(),
  concurrency: concurrencyRuleSchema,
  callback_url: z.string().nullable(),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
  last_run: routineRunSchema.nullable(),
  /** Null without a schedule, or while disabled. */
  next_run_at: z.iso.datetime().nullable(),
})
export type RoutineView = z.infer<typeof routineSchema>
