/** Running an ended execution again: what a caller may change, and what the API answers. */
import { z } from 'zod'
import { boundedRecord } from './bounded-record.ts'
import { CofferdamError } from './errors.ts'
import { acceptedSchema } from './execution-state.ts'
import { executionIdSchema } from './ids.ts'
import { isolationSchema } from './isolation.ts'
import type { KeptRequest } from './kept-request.ts'
import { BOUNDS, limitFieldsSchema, utf8, type Limits } from './limits.ts'
import { environmentSchema, networkSchema } from './network.ts'
import { argSchema, programSchema } from './program.ts'
import { fileSchema } from './request-file.ts'
import { envNameSchema, envValueSchema, executionRequestSchema } from './request.ts'
import { resultSchema } from './result.ts'
import { checkpointSchema, retrySchema } from './retry.ts'
import { sessionFieldSchema } from './session-field.ts'
import { workspaceFieldSchema } from './workspace.ts'

/** The description of a limit, with the default of a rerun instead of the default of a request. */
function aboutLimit(field: z.ZodType): { description: string; example?: unknown } {
  const { description = '', example } = z.globalRegistry.get(field) ?? {}
  const what = description.replace(/ Default: .*$/s, '')
  return {
    description: `${what} Null: the default of a request. Default: as it was.`,
    ...(example === undefined ? {} : { example }),
  }
}

/** Each limit is optional. Null sets its default. Nothing is filled in, so an edit resets no other limit. */
const limitEdits = z.strictObject(
  Object.fromEntries(
    Object.entries(limitFieldsSchema.shape).map(([name, field]) => [
      name,
      field.unwrap().nullable().optional().meta(aboutLimit(field)),
    ]),
  ),
) as unknown as z.ZodType<{ [Name in keyof Limits]?: Limits[Name] | null | undefined }>

const asBefore = 'Default: as it was.'
const orNone = `Null: none. ${asBefore}`

/**
 * Has no fields for tenant, agent, user, run and template, and none that belong to a single call. The API
 * checks the request with its edits as a new one.
 */
export const rerunEditSchema = z.strictObject({
  program: programSchema.optional().meta({ description: `Another program. ${asBefore}` }),
  args: z
    .array(argSchema)
    .max(BOUNDS.argvCount - 1)
    .optional()
    .meta({
      description: `Other arguments of a script, or of a command with argv. ${asBefore}`,
      example: ['--year', '2027'],
    }),
  stdin: utf8(BOUNDS.stdinBytes)
    .nullable()
    .optional()
    .meta({ description: `Another standard input. ${orNone}`, example: '1,2,3\n' }),
  files: z
    .array(fileSchema)
    .max(BOUNDS.fileCount)
    .nullable()
    .optional()
    .meta({ description: `Files that replace all files of the first request. ${orNone}` }),
  env: boundedRecord(envNameSchema, envValueSchema.nullable(), BOUNDS.envCount, 'variables')
    .optional()
    .meta({
      description: `Variables to set besides the others. A value of null removes one. ${asBefore}`,
      example: { REPORT_YEAR: '2027', DEBUG: null },
    }),
  artifacts: z
    .array(z.string().min(1).max(BOUNDS.pathLength))
    .max(BOUNDS.artifactGlobs)
    .nullable()
    .optional()
    .meta({ description: `Other patterns of artifacts. ${orNone}`, example: ['out/**'] }),
  session: sessionFieldSchema
    .nullable()
    .optional()
    .meta({ description: `Another session. ${orNone}` }),
  workspace: workspaceFieldSchema
    .nullable()
    .optional()
    .meta({ description: `Another workspace. ${orNone}` }),
  limits: limitEdits.optional().meta({
    description: `Limits to change. If one deadline is given, the other one follows from it. ${asBefore}`,
    example: { hard_timeout_ms: 60_000 },
  }),
  network: networkSchema.optional().meta({ description: `What the program may reach. ${asBefore}` }),
  environment: environmentSchema.optional().meta({ description: `The environment. ${asBefore}` }),
  backend: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .meta({ description: `The backend, or auto. ${asBefore}`, example: 'gvisor' }),
  min_isolation: isolationSchema
    .nullable()
    .optional()
    .meta({ description: `The weakest isolation to accept. Null: that of the policy. ${asBefore}` }),
  reuse: z
    .enum(['job', 'session', 'tenant'])
    .optional()
    .meta({ description: `Who may use the same sandbox. ${asBefore}` }),
  preload: z
    .string()
    .max(64)
    .nullable()
    .optional()
    .meta({ description: `A preload set. ${orNone}`, example: 'data' }),
  lane: z
    .enum(['interactive', 'routine'])
    .optional()
    .meta({ description: `The lane. ${asBefore}` }),
  priority: z
    .int()
    .min(0)
    .max(9)
    .optional()
    .meta({ description: `Order among the waiting executions of its agent. ${asBefore}`, example: 5 }),
  on_cap: z
    .enum(['reject', 'defer'])
    .optional()
    .meta({ description: `What to do if a cap is used up. ${asBefore}` }),
  retry: retrySchema
    .nullable()
    .optional()
    .meta({ description: `Retries. ${orNone}` }),
  checkpoint: checkpointSchema
    .nullable()
    .optional()
    .meta({ description: `A checkpoint. ${orNone}` }),
})
export type RerunEdit = z.output<typeof rerunEditSchema>

/** The body of a rerun. */
export const rerunRequestSchema = z.strictObject({
  edit: rerunEditSchema.optional().meta({ description: 'What to change. Default: nothing.' }),
  idempotency_key: executionRequestSchema.shape.idempotency_key,
})

/**
 * The kept request with its edits, still to be parsed as an execution request. Throws `invalid_request` for
 * `args` of a program without arguments, and for variables whose values were not kept and are not given.
 */
export function editedRequest(kept: KeptRequest, edit: RerunEdit): Record<string, unknown> {
  const { program, args, env, limits, ...fields } = edit
  const request = new Map(Object.entries(kept.request))
  for (const [name, value] of Object.entries(fields))
    if (value === null) request.delete(name)
    else if (value !== undefined) request.set(name, value)
  if (program !== undefined) request.set('program', program)
  if (args !== undefined) request.set('program', withArgs(request.get('program'), args))
  if (limits !== undefined) request.set('limits', withLimits(request.get('limits'), limits))
  if (env !== undefined) request.set('env', withEnv(request.get('env'), env))
  const missing = kept.env_names.filter((name) => !Object.hasOwn(env ?? {}, name))
  if (missing.length > 0)
    throw new CofferdamError(
      'invalid_request',
      'Values of environment variables are kept only encrypted, and there was no key for it ' +
        `(COFFERDAM_OUTPUT_KEYS). Give them again in edit.env, or null: ${missing.join(', ').slice(0, 500)}.`,
      { details: { missing_env: missing } },
    )
  return Object.fromEntries(request)
}

function withArgs(program: unknown, args: readonly string[]): unknown {
  const { type, argv } = program as { type?: unknown; argv?: readonly string[] }
  if (type === 'script') return { ...(program as object), argv: args }
  if (type === 'command' && argv !== undefined)
    return { ...(program as object), argv: [...argv.slice(0, 1), ...args] }
  throw new CofferdamError(
    'invalid_request',
    'edit.args needs a script, or a command with argv. Give edit.program instead.',
  )
}

/**
 * A kept request has both deadlines. If an edit changes only one, the other is removed and derived again, so
 * that the two cannot contradict each other.
 */
function withLimits(before: unknown, edit: NonNullable<RerunEdit['limits']>): Record<string, unknown> {
  const limits = new Map(Object.entries((before ?? {}) as object))
  if ('hard_timeout_ms' in edit !== 'soft_timeout_ms' in edit) {
    limits.delete('hard_timeout_ms')
    limits.delete('soft_timeout_ms')
  }
  return merged(limits, edit)
}

const withEnv = (before: unknown, edit: NonNullable<RerunEdit['env']>): Record<string, unknown> =>
  merged(new Map(Object.entries((before ?? {}) as object)), edit)

function merged(values: Map<string, unknown>, edit: object): Record<string, unknown> {
  for (const [name, value] of Object.entries(edit))
    if (value === null) values.delete(name)
    else if (value !== undefined) values.set(name, value)
  return Object.fromEntries(values)
}

export const RERUN_NOTES = [
  'session_now',
  'workspace_now',
  'template_changed',
  'policy_changed',
  'not_copied',
] as const

export const rerunSchema = z.strictObject({
  execution: acceptedSchema.meta({
    description: 'The new execution, as POST /v1/executions answers with 202.',
  }),
  rerun_of: executionIdSchema.meta({ description: 'The execution that it runs again.' }),
  notes: z
    .array(
      z.strictObject({
        code: z.enum(RERUN_NOTES).meta({ description: 'Stable word for the difference.' }),
        text: z.string().meta({
          description: 'The difference in a sentence.',
          example: 'It runs in session notebook as it is now, not as it was then.',
        }),
      }),
    )
    .meta({ description: 'What differs from the first time although nobody edited it. Empty if nothing.' }),
  result: resultSchema.nullable().meta({ description: 'The result. Null if it did not end in the wait.' }),
})
export type Rerun = z.infer<typeof rerunSchema>
