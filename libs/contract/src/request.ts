/**
 * The execution request as it is on every wire (HTTP, queue, MCP): strict, bounded, snake_case. Code behind
 * `executionRequestSchema` trusts what it has parsed.
 */
import { z } from 'zod'
import { boundedRecord } from './bounded-record.ts'
import { callbackUrlSchema } from './callback-url.ts'
import type { ExecutionId } from './ids.ts'
import { isolationSchema } from './isolation.ts'
import { BOUNDS, limitsSchema, MAX_LIMITS, utf8 } from './limits.ts'
import { nameSchema } from './name.ts'
import { environmentSchema, networkSchema } from './network.ts'
import { programSchema, type FileOperation } from './program.ts'
import { fileSchema, totalFileBytes } from './request-file.ts'
import { checkpointSchema, retrySchema } from './retry.ts'
import { sessionFieldSchema } from './session-field.ts'
import { isRunSessionKey } from './session-key.ts'
import { workspaceFieldSchema } from './workspace.ts'

/** What started an execution, for its audit row. */
export const INVOCATION_SOURCES = ['queue', 'chat', 'scheduled', 'composition'] as const

export const traceparentSchema = z
  .string()
  .regex(/^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/, 'expected a W3C traceparent')

export const envNameSchema = z
  .string()
  .max(BOUNDS.envNameLength)
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected a shell-style variable name')
export const envValueSchema = utf8(BOUNDS.envValueBytes).refine(
  (v) => !v.includes('\0'),
  'expected no NUL byte',
)
const envSchema = boundedRecord(envNameSchema, envValueSchema, BOUNDS.envCount, 'variables')

/** The smallest request. */
export const EXECUTION_EXAMPLE = {
  tenant_id: 'demo',
  agent_id: 'analyst',
  program: { type: 'script', language: 'python', source: 'print(1 + 1)' },
}

export const executionRequestSchema = z
  .strictObject({
    idempotency_key: z
      .string()
      .min(1)
      .max(255)
      .optional()
      .meta({
        description:
          'Makes repeating the request harmless. For 24 hours, the same key with the same body names the ' +
          'same execution; with another body the answer is 409. Default: none.',
        example: 'order-4711',
      }),
    tenant_id: nameSchema.meta({
      description: 'The tenant that the execution belongs to, and whose policy and caps apply.',
      example: 'demo',
    }),
    agent_id: nameSchema.meta({
      description: 'The agent that asks. It has an hourly cap of its own.',
      example: 'analyst',
    }),
    user_id: nameSchema.optional().meta({
      description: 'The user on whose behalf the agent works. Only for the audit row. Default: none.',
      example: 'user-7',
    }),
    run_id: nameSchema.optional().meta({
      description:
        'The turn of the agent. For the audit row, and to share one session if the policy has ' +
        'run_sessions. Default: none.',
      example: 'run-2026-11-20-1',
    }),
    tool_call_id: nameSchema.optional().meta({
      description: 'The tool call that this execution answers. Only for the audit row. Default: none.',
      example: 'toolu_01A2',
    }),
    template_id: nameSchema.optional().meta({
      description:
        'The template whose settings apply besides those of the tenant. Default: the one that the API key ' +
        'or the agent is bound to, if any.',
      example: 'strict',
    }),
    program: programSchema.meta({ description: 'What to run.' }),
    stdin: utf8(BOUNDS.stdinBytes).optional().meta({
      description: 'Standard input of the program, at most 4 MiB in UTF-8. Default: empty.',
      example: '1,2,3\n',
    }),
    files: z.array(fileSchema).max(BOUNDS.fileCount).optional().meta({
      description: 'Files to put into the work directory: at most 1,000, and 16 MiB in all. Default: none.',
    }),
    env: envSchema.optional().meta({
      description:
        'Environment variables of the program: at most 128, with values of up to 32 KiB. Variables that ' +
        'change how programs start are dropped; the result names them. Default: none.',
      example: { REPORT_YEAR: '2026' },
    }),
    artifacts: z
      .array(z.string().min(1).max(BOUNDS.pathLength))
      .max(BOUNDS.artifactGlobs)
      .optional()
      .meta({
        description:
          'Patterns of files to return after the program has ended by itself. `*` and `?` stay within one ' +
          'folder, `**` crosses folders. Default: none.',
        example: ['out/**', '*.png'],
      }),
    session: sessionFieldSchema.optional().meta({
      description:
        'Run in this session, so that executions share a sandbox one after the other. Default: none.',
    }),
    limits: limitsSchema
      .prefault({})
      .meta({ description: 'Deadlines, memory and other limits. Default: the default of each.' }),
    network: networkSchema.default('none').meta({
      description:
        'What the program may reach, within the policy of the tenant: nothing (none, the default), public ' +
        'addresses (public), or the hosts of an allow-list.',
    }),
    environment: environmentSchema.default('default-public').meta({
      description: 'The environment of the tenant that it runs in. internal-only has no network.',
    }),
    backend: z.string().min(1).max(64).default('auto').meta({
      description: 'The backend to run on, such as docker. auto: the first of the worker that fits.',
      example: 'auto',
    }),
    min_isolation: isolationSchema.optional().meta({
      description:
        'The weakest isolation to accept. The stronger of this and the policy of the tenant applies. ' +
        'Default: that policy.',
    }),
    reuse: z
      .enum(['job', 'session', 'tenant'])
      .optional()
      .meta({
        description:
          'Who may use the same sandbox: nobody else (job), the session, or other executions of the tenant ' +
          'after a wipe (tenant). Default: job, or session if there is a session.',
      }),
    preload: z
      .string()
      .max(64)
      .optional()
      .meta({
        description:
          'A preload set of the workers’ configuration, whose modules a warm interpreter has imported. ' +
          'Default: none.',
        example: 'data',
      }),
    lane: z.enum(['interactive', 'routine']).default('interactive').meta({
      description:
        'interactive: a deadline of at most 1 hour. routine: at most 24 hours, but only a part of the slots.',
    }),
    priority: z.int().min(0).max(9).default(5).meta({
      description: 'Order among the waiting executions of the same agent: higher goes first.',
      example: 5,
    }),
    delay_ms: z.int().min(0).max(BOUNDS.queueWaitMs).optional().meta({
      description: 'Start it this much later at the earliest, milliseconds, at most 24 hours. Default: 0.',
      example: 60_000,
    }),
    on_cap: z.enum(['reject', 'defer']).default('reject').meta({
      description: 'If a cap is used up: end with cap_exceeded (reject), or wait until it resets (defer).',
    }),
    retry: retrySchema
      .optional()
      .meta({ description: 'When to attempt the execution again. Default: never.' }),
    checkpoint: checkpointSchema.optional().meta({
      description: 'Keep files of an attempt for the next one. Default: an attempt starts without them.',
    }),
    workspace: workspaceFieldSchema.optional().meta({
      description:
        'Files of the tenant that are copied into the work directory, and merged back. Default: none.',
    }),
    callback_url: callbackUrlSchema.optional().meta({
      description:
        'Address that the result is posted to, signed with the callback secret of the tenant. Default: none.',
    }),
    invocation_source: z.enum(INVOCATION_SOURCES).optional().meta({
      description: 'What started the execution. Only for the audit row. Default: queue.',
    }),
    traceparent: traceparentSchema.optional().meta({
      description:
        'W3C trace context of the caller, so that the spans of the execution join its trace. ' +
        'Default: a new trace.',
      example: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    }),
  })
  .refine((r) => new Set((r.files ?? []).map((f) => f.path)).size === (r.files ?? []).length, {
    path: ['files'],
    message: 'expected each path once',
  })
  .refine((r) => r.lane === 'routine' || r.limits.hard_timeout_ms <= MAX_LIMITS.interactive_timeout_ms, {
    path: ['limits', 'hard_timeout_ms'],
    message: `expected at most ${MAX_LIMITS.interactive_timeout_ms} ms; use lane "routine" for longer runs`,
  })
  .refine((r) => r.reuse !== 'session' || r.session !== undefined, {
    path: ['session'],
    message: 'expected session: { key } with reuse "session"',
  })
  .refine((r) => r.program.type === 'files' || !isRunSessionKey(r.session?.key ?? ''), {
    path: ['session', 'key'],
    message: 'expected a key without "run:"; an execution gets the session of its run by run_id alone',
  })
  .refine((r) => r.program.type !== 'files' || r.session !== undefined, {
    path: ['session'],
    message: 'expected session: { key } with a program of type "files"',
  })
  .refine((r) => r.program.type !== 'files' || r.program.path !== undefined || !needsPath(r.program.op), {
    path: ['program', 'path'],
    message: 'expected the path of a file, or of the folder to collect',
  })
  .refine((r) => r.program.type !== 'files' || (r.program.op === 'fork') === (r.program.keys !== undefined), {
    path: ['program', 'keys'],
    message: 'expected the keys of the new sessions for a fork, and for nothing else',
  })
  .refine((r) => r.program.type !== 'files' || r.program.keys?.some(isRunSessionKey) !== true, {
    path: ['program', 'keys'],
    message: 'expected keys without "run:", which belong to sessions of runs',
  })
  .refine((r) => r.reuse !== 'tenant' || r.session === undefined, {
    path: ['reuse'],
    message: 'expected no session with reuse "tenant"',
  })
  .refine((r) => totalFileBytes(r.files ?? []) <= BOUNDS.filesTotalBytes, {
    path: ['files'],
    message: `expected at most ${BOUNDS.filesTotalBytes} bytes in all`,
  })
  .meta({ description: 'What to run, where, and within which limits.', example: EXECUTION_EXAMPLE })

const needsPath = (op: FileOperation): boolean => op === 'read' || op === 'remove' || op === 'collect'

/** The effective reuse scope: a request that names a session has scope `session`. */
export const reuseOf = (
  request: Pick<ExecutionRequest, 'reuse' | 'session'>,
): NonNullable<ExecutionRequest['reuse']> =>
  request.session === undefined ? (request.reuse ?? 'job') : 'session'

/** The preload set that a request names, or null. */
export const preloadOf = ({ preload }: Pick<ExecutionRequest, 'preload'>): string | null =>
  preload === undefined || preload === 'none' ? null : preload

/** What a producer writes. Defaults may be omitted. */
export type ExecutionRequestInput = z.input<typeof executionRequestSchema>
/** What the rest of the system reads, with defaults filled in. */
export type ExecutionRequest = z.output<typeof executionRequestSchema> & {
  /** The ended execution that this request runs again. Only the API sets it: callers are refused. */
  rerun_of?: ExecutionId | undefined
}
