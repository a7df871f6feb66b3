/** POST /api/sandbox/test: runs a command in a fresh session and reports each phase. Admin keys only. */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  CofferdamError,
  executionRequestSchema,
  isCofferdamError,
  nameSchema,
  resultSchema,
  traceSpanSchema,
} from '@cofferdam/contract'
import { readShelvedTrace } from '@cofferdam/queue'
import type { Redis } from 'ioredis'
import { z } from 'zod'
import type { App, RouteParts } from './route-deps.ts'
import { grantSandboxTest } from './sandbox-switch.ts'
import type { SandboxSettings } from './settings-table.ts'
import { rulesOfWhitelist } from './whitelist.ts'
import { BACKEND } from './worker-part.ts'

/** The agent that tests are charged to. */
const TEST_AGENT = 'cofferdam-sandbox-test'
/** The tenant of a test that names none, unless the fleet has exactly one tenant. */
const TEST_TENANT = 'cofferdam-sandbox-test'
/** The workspace that represents Polyclaw's data directory. */
const WORKSPACE = 'polyclaw'
/** Plus GRACE_MS, this is one hour, the longest that an interactive execution may take. */
const MAX_TIMEOUT_S = 3599
const GRACE_MS = 1000
/** Time for queueing, for opening a session, and for copying files in both directions. */
const AROUND_MS = 120_000
/** A worker stores the spans of an execution shortly after it publishes the result. */
const TRACE_WAIT_MS = 1000

/** Polyclaw's phases, by the names of the worker's spans. */
const PHASES = new Map<string, 'allocate' | 'upload' | 'exec' | 'download'>([
  ['sandbox.acquire', 'allocate'],
  ['sandbox.prepare', 'upload'],
  ['program.run', 'exec'],
  ['workspace.take', 'download'],
])

const answerSchema = z.strictObject({
  status: z.enum(['ok', 'error']).meta({ description: 'Whether the command succeeded.' }),
  success: z.boolean().meta({ description: 'The same as a boolean, as Polyclaw reads it.' }),
  stdout: resultSchema.shape.stdout,
  stderr: resultSchema.shape.stderr,
  exit_code: resultSchema.shape.exit_code,
  files_synced_back: z.int().min(0).meta({
    description: 'Changed files that were merged back, deleted ones included, at most 1,000.',
    example: 0,
  }),
  duration_ms: resultSchema.shape.duration_ms,
  session_id: z.string().nullable().meta({
    description: 'The session. Null when none was opened.',
    example: 'ses_01a1fa08335671eda83cd82154726441',
  }),
  execution_id: z.string().meta({
    description: 'The execution.',
    example: 'exe_01a1fa08335671eda83cd82154726441',
  }),
  error_message: z.string().nullable().meta({
    description: 'What went wrong. Null if nothing did.',
    example: 'The program exited with code 1.',
  }),
  phases: z
    .array(
      z.strictObject({
        name: z.enum(['allocate', 'upload', 'exec', 'download']).meta({ description: 'The phase.' }),
        duration_ms: z.number().meta({ description: 'Milliseconds.', example: 820 }),
      }),
    )
    .meta({ description: 'As the worker traced them. Empty when it kept no trace.' }),
  credential: z.string().nullable().meta({
    description: 'How the workers get their Azure token, as they last reported. Null if none reported it.',
    example: 'managed-identity',
  }),
  dialect: z.string().nullable().meta({
    description: 'The API dialect of the pool, as workers last reported it. Null for a custom container.',
    example: 'executions',
  }),
  output_cap: z
    .int()
    .nullable()
    .meta({
      description:
        'Most characters of output that the pool puts into one answer. Longer output comes as a file. Null ' +
        'if unknown.',
      example: 10_000,
    }),
})

export function addTestRoute(app: App, parts: RouteParts): void {
  const { configs, redisOf, actorOf, traceparentOf } = parts
  app.post(
    '/test',
    {
      config: { admin: true },
      schema: {
        operationId: 'testSandbox',
        tags: ['sandbox'],
        summary: 'Run one command in a fresh session of the pool and wait for it. Admin.',
        description:
          'An ordinary execution on the backend azure: policy holds, and it counts against the caps of ' +
          'the tenant. Works while the sandbox is disabled too, so that you can test before you enable it.',
        body: z
          .strictObject({
            command: z.string().min(1).max(65_536).default('echo hello').meta({
              description: 'A line for bash.',
              example: 'python3 --version',
            }),
            timeout: z.number().min(1).max(MAX_TIMEOUT_S).default(60).meta({
              description: 'Time for the command, seconds.',
              example: 60,
            }),
            env_vars: executionRequestSchema.shape.env,
            tenant_id: nameSchema.optional().meta({
              description:
                `The tenant whose caps it counts against. Default: the fleet's only tenant. If there is ` +
                `not exactly one, \`${TEST_TENANT}\`, which is created if needed.`,
              example: 'demo',
            }),
          })
          .prefault({}),
        response: { 200: answerSchema, ...parts.wire.failures },
      },
    },
    async (request, reply) => {
      const { command, timeout, env_vars, tenant_id } = request.body
      const { settings } = await configs.get()
      const tenant = tenant_id ?? (await testTenant(parts, actorOf(request)))
      const redis = await redisOf(tenant)
      const waitMs = Math.round(timeout * 1000) + AROUND_MS
      const execution = executionRequestSchema.parse({
        tenant_id: tenant,
        idempotency_key: await grantSandboxTest(redis, tenant, waitMs),
        agent_id: TEST_AGENT,
        backend: BACKEND,
        program: { type: 'command', shell: command },
        limits: testLimits(timeout),
        ...(env_vars === undefined ? {} : { env: env_vars }),
        ...workspaceOf(settings),
        traceparent: traceparentOf(request),
      })
      const { status, body } = await parts.run(request, reply, execution, waitMs)
      if (status === 202)
        throw new CofferdamError('wait_timeout', undefined, { details: { execution_id: body.execution_id } })
      return {
        status: body.ok ? ('ok' as const) : ('error' as const),
        success: body.ok,
        stdout: body.stdout,
        stderr: body.stderr,
        exit_code: body.exit_code,
        files_synced_back: body.workspace?.applied.length ?? 0,
        duration_ms: body.duration_ms,
        session_id: body.session?.id ?? null,
        execution_id: body.execution_id,
        error_message: body.error_message ?? null,
        phases: await phasesOf(redis, body.execution_id),
        ...(await poolFacts(parts)),
      }
    },
  )
}

function workspaceOf({ sync_data, whitelist }: SandboxSettings) {
  return sync_data ? { workspace: { name: WORKSPACE, rules: rulesOfWhitelist(whitelist) } } : {}
}

/** The command gets all of `timeout` (seconds), and some more time to end. */
export function testLimits(timeout: number): { soft_timeout_ms: number; hard_timeout_ms: number } {
  const softMs = Math.round(timeout * 1000)
  return { soft_timeout_ms: softMs, hard_timeout_ms: softMs + GRACE_MS }
}

/** Picks the tenant of a test that names none, because Polyclaw's callers know no tenants. */
async function testTenant({ store }: RouteParts, actor: string): Promise<string> {
  const found = await store.tenants.list({ limit: 3 })
  const [first, second] = found.filter(({ policy }) => policy.tenant_id !== TEST_TENANT)
  if (first !== undefined && second === undefined) return first.policy.tenant_id
  if ((await store.tenants.get(TEST_TENANT)) === null)
    await store.tenants.create({ tenant_id: TEST_TENANT }, actor).catch((error: unknown) => {
      // Another test created the tenant meanwhile.
      if (!isCofferdamError(error) || error.code !== 'conflict') throw error
    })
  return TEST_TENANT
}

async function phasesOf(redis: Redis, executionId: string) {
  const endMs = performance.now() + TRACE_WAIT_MS
  for (;;) {
    const spans = (await readShelvedTrace(redis, executionId)).flatMap((span) => {
      const parsed = traceSpanSchema.safeParse(span)
      return parsed.success ? [parsed.data] : []
    })
    if (spans.some(({ name }) => name === 'program.run') || performance.now() > endMs)
      return spans
        .toSorted((a, b) => a.start_ms - b.start_ms)
        .flatMap(({ name, duration_ms }) => {
          const phase = PHASES.get(name)
          return phase === undefined ? [] : [{ name: phase, duration_ms }]
        })
    await sleep(50)
  }
}

/** Facts about the pool from the last backend probes of the workers. */
async function poolFacts({ backendReports }: RouteParts) {
  const reports = await backendReports()
  const features = reports
    .filter(({ name }) => name === BACKEND)
    .flatMap(({ workers }) =>
      workers.flatMap(({ report }) => featuresSchema.safeParse(report.probe).data?.features ?? []),
    )
  const said = (pattern: RegExp): string | null => pattern.exec(features.join('\n'))?.[1] ?? null
  const cap = said(/\b(\d+) characters of output/)
  return {
    credential: said(/^token by (\S+)/m),
    dialect: said(/\bdialect (\w+)/),
    output_cap: cap === null ? null : Number(cap),
  }
}

const featuresSchema = z.object({ features: z.array(z.string()) })
