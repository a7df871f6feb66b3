/**
 * A routine is an execution request that runs repeatedly, by a schedule or on demand. This file has what a
 * caller writes, what is stored, and the outcome of each run.
 */
import { z } from 'zod'
import { executionIdSchema, idSchema, uuidv7Hex } from './ids.ts'
import { callbackUrlSchema } from './callback-url.ts'
import { nameSchema, timeSchema } from './name.ts'
import { EXECUTION_EXAMPLE, executionRequestSchema } from './request.ts'

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
    cron: z.string().trim().min(1).max(256).meta({
      description: 'Five fields of cron, six with seconds in front, or a word such as @daily.',
      example: '30 2 * * *',
    }),
    time_zone: timeZoneSchema.default('UTC').meta({
      description: 'IANA time zone of cron.',
      example: 'Europe/Berlin',
    }),
  }),
  z.strictObject({
    every_ms: z.int().min(EVERY_MS.min).max(EVERY_MS.max).meta({
      description: 'Fixed interval, milliseconds, counted from the creation of the routine. At most 31 days.',
      example: 3_600_000,
    }),
  }),
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

/** What a caller writes, without defaults: a patch must not reset a field. */
const WRITTEN = {
  name: nameOfRoutineSchema.meta({ description: 'A name for humans.', example: 'Nightly report' }),
  request: routineRequestSchema.meta({
    description:
      'An ExecutionRequest without idempotency_key, traceparent, delay_ms and invocation_source. Its lane ' +
      'is always routine.',
    example: EXECUTION_EXAMPLE,
    like: 'ExecutionRequest',
  }),
  schedule: scheduleSchema.nullable().meta({ description: 'When it runs. Null: on demand only.' }),
  enabled: z.boolean().meta({ description: 'False: it runs on demand only.' }),
  concurrency: concurrencyRuleSchema.meta({
    description:
      'If an earlier run has not ended: run both (allow), skip the new one (forbid), or cancel the ' +
      'earlier one (replace).',
  }),
  callback_url: callbackUrlSchema.nullable().meta({
    description:
      'Address that the result of each run is posted to. Null: none, unless the request names one.',
    example: 'https://example.com/hooks/cofferdam',
  }),
}

export const routineInputSchema = z.strictObject({
  ...WRITTEN,
  schedule: WRITTEN.schedule.default(null),
  enabled: WRITTEN.enabled.default(true),
  concurrency: WRITTEN.concurrency.default('forbid'),
  callback_url: WRITTEN.callback_url.default(null),
})
export type RoutineInput = z.output<typeof routineInputSchema>

/** Omitted fields keep their value. */
export const routinePatchSchema = z
  .strictObject(WRITTEN)
  .partial()
  .refine((patch) => Object.keys(patch).length > 0, 'expected at least one field')
export type RoutinePatch = z.output<typeof routinePatchSchema>

/** The outcome when a routine was due. */
export const RUN_OUTCOMES = ['enqueued', 'skipped', 'refused'] as const

export const routineRunSchema = z.strictObject({
  scheduled_at: timeSchema
    .nullable()
    .meta({ description: 'When it was due. Null when it was run on demand.' }),
  fired_at: timeSchema.meta({ description: 'When it was enqueued, skipped or refused.' }),
  outcome: z.enum(RUN_OUTCOMES).meta({ description: 'What became of it.' }),
  reason: z.string().max(500).nullable().meta({
    description: 'Why it was skipped or refused, or which runs it replaced. Otherwise null.',
    example: 'exe_01a1fa08335671eda83cd82154726441 has not ended',
  }),
  execution_id: executionIdSchema.nullable().meta({
    description: 'Its execution. Null unless it was enqueued.',
  }),
})
export type RoutineRun = z.infer<typeof routineRunSchema>

export const routineSchema = z.strictObject({
  routine_id: routineIdSchema.meta({ description: 'The routine.' }),
  tenant_id: nameSchema.meta({ description: 'Its tenant.', example: 'demo' }),
  agent_id: nameSchema.meta({
    description: 'The agent whose caps its runs count against.',
    example: 'analyst',
  }),
  template_id: nameSchema.nullable().meta({
    description: 'The template that its request names. Null if it names none.',
    example: 'strict',
  }),
  name: z.string().meta({ description: 'A name for humans.', example: 'Nightly report' }),
  request: z.record(z.string(), z.unknown()).meta({
    description: 'The request as it was written.',
    example: { tenant_id: 'demo', agent_id: 'analyst', program: { type: 'install' } },
  }),
  schedule: WRITTEN.schedule,
  enabled: WRITTEN.enabled,
  concurrency: WRITTEN.concurrency,
  callback_url: z.string().nullable().meta({
    description:
      'Address that the result of each run is posted to. Null: none, unless the request names one.',
    example: 'https://example.com/hooks/cofferdam',
  }),
  created_at: timeSchema.meta({ description: 'When it was created.' }),
  updated_at: timeSchema.meta({ description: 'When it was last changed.' }),
  last_run: routineRunSchema.nullable().meta({ description: 'Its last run. Null before the first.' }),
  next_run_at: timeSchema.nullable().meta({
    description: 'When it is due next. Null without a schedule, or while disabled.',
  }),
})
export type RoutineView = z.infer<typeof routineSchema>
