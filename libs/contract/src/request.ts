/**
 * The execution request as it is on every wire (HTTP, queue, MCP): strict, bounded, snake_case. Code behind
 * `executionRequestSchema` trusts what it has parsed.
 */
import { z } from 'zod'
import { boundedRecord } from './bounded-record.ts'
import { isolationSchema } from './isolation.ts'
import { BOUNDS, limitsSchema, MAX_LIMITS, utf8 } from './limits.ts'
import { pathSchema, programSchema, type FileOperation } from './program.ts'
import { isRunSessionKey, sessionKeySchema } from './session-key.ts'
import { CONFLICT_POLICIES, syncRuleSchema } from './workspace.ts'

/** Names that callers choose for tenants, agents, users, runs, tool calls, templates: any UUID or slug. */
export const nameSchema = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}$/,
    'expected 1-128 letters, digits or _ . @ -, starting with a letter or digit',
  )

/**
 * What one execution of a session leaves to the next: nothing, its files, also the interpreter (REPL), or also
 * its background processes and every file.
 */
export const SESSION_SCOPES = ['none', 'files', 'interpreter', 'processes'] as const
export type SessionScope = (typeof SESSION_SCOPES)[number]

const base64Schema = z
  .base64()
  .max(Math.ceil(BOUNDS.fileBytes / 3) * 4, `expected at most ${BOUNDS.fileBytes} bytes before base64`)

export const fileSchema = z
  .strictObject({
    path: pathSchema,
    content: utf8(BOUNDS.fileBytes).optional(),
    content_base64: base64Schema.optional(),
    executable: z.boolean().optional(),
  })
  .refine(
    (f) => (f.content === undefined) !== (f.content_base64 === undefined),
    'expected exactly one of content and content_base64',
  )
export type FileIn = z.infer<typeof fileSchema>

const hostSchema = z
  .string()
  .max(261)
  .regex(/^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?$/, 'expected host, *.host or host:port')

/** The ports of an allow-list entry without a port. */
export const WEB_PORTS: readonly number[] = [80, 443]

export const networkSchema = z.union([
  z.literal('none'),
  z.literal('public'),
  z.strictObject({ allow: z.array(hostSchema).min(1).max(64) }),
])
export type Network = z.infer<typeof networkSchema>

export const ENVIRONMENTS = ['default-public', 'internal-only'] as const
export const environmentSchema = z.enum(ENVIRONMENTS)
export type Environment = z.infer<typeof environmentSchema>

/** Endings after which a request may ask for another attempt. */
export const RETRY_ENDINGS = [
  'worker_lost',
  'sandbox_lost',
  'provisioning',
  'error',
  'crashed',
  'soft_timeout',
  'hard_timeout',
  'oom',
] as const

export const retrySchema = z.strictObject({
  max_attempts: z.int().min(1).max(10),
  /**
   * Use endings of the platform if the program has no effects outside the sandbox, and endings of the program
   * itself if it can resume.
   */
  on: z.array(z.enum(RETRY_ENDINGS)).min(1).max(RETRY_ENDINGS.length),
})

export const checkpointSchema = z.strictObject({
  globs: z
    .array(z.string().min(1).max(BOUNDS.pathLength))
    .min(1)
    .max(BOUNDS.artifactGlobs)
    .default(['checkpoint/**']),
  /** Interval of saves while the program runs. Default: saved only at the end of an attempt. */
  every_ms: z.int().min(1000).max(3_600_000).optional(),
})

/** Files of the tenant that are copied into the work directory, and whose changes are merged back. */
export const workspaceFieldSchema = z.strictObject({
  name: nameSchema,
  /** What happens to a file that both sides changed. */
  on_conflict: z.enum(CONFLICT_POLICIES).default('keep-both'),
  /** The first matching rule decides. No rules: all files both ways. No match: the file is not copied. */
  rules: z.array(syncRuleSchema).min(1).max(BOUNDS.workspaceRules).optional(),
})

/** Where the result is posted. The addresses behind it are checked when it is called, not here. */
export const callbackUrlSchema = z
  .url({ protocol: /^https?$/, error: 'expected an http or https URL' })
  .max(2048)
  .refine(
    (text) => !/[\s]/.test(text) && isPlainUrl(text),
    'expected a URL without user, password or fragment',
  )
  .refine(isWebPort, 'expected port 80, 443, or one from 1024 on')

/** Ports below 1024 belong to other protocols, whose servers could misread a POST. */
function isWebPort(text: string): boolean {
  const port = URL.parse(text)?.port ?? ''
  return port === '' || port === '80' || port === '443' || Number(port) >= 1024
}

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && url.username === '' && url.password === '' && url.hash === ''
}

/** What started an execution, for its audit row. */
export const INVOCATION_SOURCES = ['queue', 'chat', 'scheduled', 'composition'] as const

export const traceparentSchema = z
  .string()
  .regex(/^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/, 'expected a W3C traceparent')

export const executionRequestSchema = z
  .strictObject({
    idempotency_key: z.string().min(1).max(255).optional(),
    tenant_id: nameSchema,
    agent_id: nameSchema,
    user_id: nameSchema.optional(),
    run_id: nameSchema.optional(),
    tool_call_id: nameSchema.optional(),
    template_id: nameSchema.optional(),
    program: programSchema,
    stdin: utf8(BOUNDS.stdinBytes).optional(),
    files: z.array(fileSchema).max(BOUNDS.fileCount).optional(),
    env: boundedRecord(
      z
        .string()
        .max(BOUNDS.envNameLength)
        .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected a shell-style variable name'),
      utf8(BOUNDS.envValueBytes).refine((v) => !v.includes('\0'), 'expected no NUL byte'),
      BOUNDS.envCount,
      'variables',
    ).optional(),
    artifacts: z.array(z.string().min(1).max(BOUNDS.pathLength)).max(BOUNDS.artifactGlobs).optional(),
    session: z
      .strictObject({
        key: sessionKeySchema,
        scope: z.enum(SESSION_SCOPES).default('files'),
        idle_ms: z.int().min(1000).max(3_600_000).optional(),
        /** Refuse with `session_not_found`, uncharged, instead of starting a new session. */
        must_exist: z.boolean().optional(),
      })
      .optional(),
    limits: limitsSchema.prefault({}),
    network: networkSchema.default('none'),
    environment: environmentSchema.default('default-public'),
    backend: z.string().min(1).max(64).default('auto'),
    min_isolation: isolationSchema.optional(),
    /** Default: `job`, or the session of the run if the tenant's policy has `run_sessions`. */
    reuse: z.enum(['job', 'session', 'tenant']).optional(),
    preload: z.string().max(64).optional(),
    lane: z.enum(['interactive', 'routine']).default('interactive'),
    priority: z.int().min(0).max(9).default(5),
    delay_ms: z.int().min(0).max(BOUNDS.queueWaitMs).optional(),
    on_cap: z.enum(['reject', 'defer']).default('reject'),
    retry: retrySchema.optional(),
    checkpoint: checkpointSchema.optional(),
    workspace: workspaceFieldSchema.optional(),
    callback_url: callbackUrlSchema.optional(),
    invocation_source: z.enum(INVOCATION_SOURCES).optional(),
    traceparent: traceparentSchema.optional(),
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
  .refine((r) => r.reuse !== 'tenant' || r.session === undefined, {
    path: ['reuse'],
    message: 'expected no session with reuse "tenant"',
  })
  .refine((r) => totalFileBytes(r.files ?? []) <= BOUNDS.filesTotalBytes, {
    path: ['files'],
    message: `expected at most ${BOUNDS.filesTotalBytes} bytes in all`,
  })

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
export type ExecutionRequest = z.output<typeof executionRequestSchema>

export function fileBytes(file: FileIn): Buffer {
  return file.content === undefined
    ? Buffer.from(file.content_base64 ?? '', 'base64')
    : Buffer.from(file.content)
}

function totalFileBytes(files: FileIn[]): number {
  return files.reduce((sum, file) => sum + sizeOf(file), 0)
}

/** Size of a file without decoding it. */
function sizeOf({ content, content_base64: base64 = '' }: FileIn): number {
  if (content !== undefined) return Buffer.byteLength(content)
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0
  return (base64.length / 4) * 3 - padding
}
