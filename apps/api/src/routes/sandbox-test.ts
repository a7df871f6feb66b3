/** POST /api/sandbox/test: one command in a fresh session, and how each phase of it went (seed 004). Admin. */
import { setTimeout as sleep } from 'node:timers/promises'
import { grantSandboxTest } from '@cofferdam/admission'
import {
  CofferdamError,
  executionRequestSchema,
  isCofferdamError,
  nameSchema,
  traceSpanSchema,
} from '@cofferdam/contract'
import { readShelvedTrace } from '@cofferdam/queue'
import type { SandboxSettings } from '@cofferdam/store'
import { rulesOfWhitelist } from '@cofferdam/workspace-sync'
import { z } from 'zod'
import { actorOf } from '../authenticate.ts'
import { readBackendReports } from './fleet.ts'
import { enqueueAndWait } from '../enqueue-and-wait.ts'
import type { App, RouteContext } from '../route-context.ts'
import { readTraceparent } from '../trace-id.ts'
import { FAILURES } from '../wire-schemas.ts'

const BACKEND = 'azure'
/**
 * The agent that tests are charged to, and the tenant where the fleet has not one alone and the caller names
 * none.
 */
const TEST_AGENT = 'cofferdam-sandbox-test'
const TEST_TENANT = 'cofferdam-sandbox-test'
/** The workspace that stands for Polyclaw's data directory. */
const WORKSPACE = 'polyclaw'
/** Together an interactive execution's hour. */
const MAX_TIMEOUT_S = 3599
const GRACE_MS = 1000
/** Beside the command's own time: the queue, a new session, and the files both ways. */
const AROUND_MS = 120_000
/** A worker keeps an execution's spans shortly after it told the result. */
const TRACE_WAIT_MS = 1000

/** The worker's spans (libs/executor/src/spans.ts) in the seed's words. */
const PHASES = new Map<string, 'allocate' | 'upload' | 'exec' | 'download'>([
  ['sandbox.acquire', 'allocate'],
  ['sandbox.prepare', 'upload'],
  ['program.run', 'exec'],
  ['workspace.take', 'download'],
])

const answerSchema = z.strictObject({
  status: z.enum(['ok', 'error']),
  success: z.boolean(),
  stdout: z.string(),
  stderr: z.string(),
  exit_code: z.int().nullable(),
  files_synced_back: z.int().min(0),
  duration_ms: z.number().min(0),
  session_id: z.string().nullable(),
  execution_id: z.string(),
  error_message: z.string().nullable(),
  phases: z
    .array(
      z.strictObject({ name: z.enum(['allocate', 'upload', 'exec', 'download']), duration_ms: z.number() }),
    )
    .meta({ description: 'As the worker traced them; empty when it kept no trace.' }),
  credential: z.string().nullable().meta({ description: 'Which way the token came, as workers last said.' }),
  dialect: z.string().nullable().meta({
    description: 'The wire that the pool speaks, as workers last said; null of a custom container.',
  }),
  output_cap: z
    .int()
    .nullable()
    .meta({ description: 'Characters of output that an answer of the pool holds; more comes as a file.' }),
})

/** Adds the route. */
export function sandboxTest(app: App, context: RouteContext): void {
  app.post(
    '/test',
    {
      config: { admin: true },
      schema: {
        operationId: 'testSandbox',
        tags: ['sandbox'],
        summary: 'Run one command in a fresh session of the pool and wait for it. Admin.',
        description:
          'An ordinary execution on the backend azure: policy holds, and it counts against the caps of the tenant. Works while the sandbox is disabled, as it says whether to enable it.',
        body: z
          .strictObject({
            command: z.string().min(1).max(65_536).default('echo hello'),
            timeout: z.number().min(1).max(MAX_TIMEOUT_S).default(60).meta({ description: 'Seconds.' }),
            env_vars: executionRequestSchema.shape.env,
            tenant_id: nameSchema.optional().meta({
              description: `Whose caps it counts against. Default: the fleet's only tenant, else \`${TEST_TENANT}\`, which is made.`,
            }),
          })
          .prefault({}),
        response: { 200: answerSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const { command, timeout, env_vars, tenant_id } = request.body
      const { settings } = await context.store.sandboxConfig.get()
      const tenant = tenant_id ?? (await testTenant(context, actorOf(request)))
      const waitMs = Math.round(timeout * 1000) + AROUND_MS
      const execution = executionRequestSchema.parse({
        tenant_id: tenant,
        idempotency_key: await grantSandboxTest(context.redis, tenant, waitMs),
        agent_id: TEST_AGENT,
        backend: BACKEND,
        program: { type: 'command', shell: command },
        limits: testLimits(timeout),
        ...(env_vars === undefined ? {} : { env: env_vars }),
        ...workspaceOf(settings),
        traceparent: readTraceparent(request.headers.traceparent) ?? undefined,
      })
      const { status, body } = await enqueueAndWait(context, request, reply, execution, waitMs)
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
        phases: await phasesOf(context, body.execution_id),
        ...(await saidByWorkers(context)),
      }
    },
  )
}

function workspaceOf({ sync_data, whitelist }: SandboxSettings) {
  return sync_data ? { workspace: { name: WORKSPACE, rules: rulesOfWhitelist(whitelist) } } : {}
}

/** The command has all of `timeout` (seconds); what is beyond is for its end. */
export function testLimits(timeout: number): { soft_timeout_ms: number; hard_timeout_ms: number } {
  const softMs = Math.round(timeout * 1000)
  return { soft_timeout_ms: softMs, hard_timeout_ms: softMs + GRACE_MS }
}

/** The seed's callers know no tenants: where there is no only one, a test is nobody's. */
async function testTenant({ store }: RouteContext, actor: string): Promise<string> {
  const found = await store.tenants.list({ limit: 3 })
  const [first, second] = found.filter(({ policy }) => policy.tenant_id !== TEST_TENANT)
  if (first !== undefined && second === undefined) return first.policy.tenant_id
  if ((await store.tenants.get(TEST_TENANT)) === null)
    await store.tenants.create({ tenant_id: TEST_TENANT }, actor).catch((error: unknown) => {
      // Another test made it meanwhile.
      if (!isCofferdamError(error) || error.code !== 'conflict') throw error
    })
  return TEST_TENANT
}

async function phasesOf(context: RouteContext, executionId: string) {
  const endMs = performance.now() + TRACE_WAIT_MS
  for (;;) {
    const spans = (await readShelvedTrace(context.redis, executionId)).flatMap((span) => {
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

/** From the backend's probe, as workers report it. */
async function saidByWorkers(context: RouteContext) {
  const reports = await readBackendReports(context.redis, context.now())
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
