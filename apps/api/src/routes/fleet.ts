/** GET /v1/backends, and POST /v1/backends/{backend}/test, which runs a small program. */
import { isBackendName } from '@cofferdam/backends'
import {
  acceptedSchema,
  CofferdamError,
  executionRequestSchema,
  isolationSchema,
  nameSchema,
  resultSchema,
} from '@cofferdam/contract'
import { askCells, keysOf } from '@cofferdam/queue'
import type { Redis } from 'ioredis'
import { z } from 'zod'
import { isAdmin, oneTenant } from '../authenticate.ts'
import { enqueueAndWait } from '../enqueue-and-wait.ts'
import type { App, RouteContext } from '../route-context.ts'
import { readTraceparent } from '../trace-id.ts'
import { FAILURES, tenantQuery, waitSchema } from '../wire-schemas.ts'

/** The agent that test executions are charged to. */
const TEST_AGENT = 'cofferdam-backend-test'
const TEST_WAIT_MS = 30_000

/** Three missed renewals of 20 s (apps/worker, publish-backends.ts). */
const STALE_AFTER_MS = 60_000

const backendNameSchema = z.string().meta({ description: 'The backend.', example: 'docker' })

/** Loose, because workers of another version may report more or less about a backend. */
const backendReportSchema = z.looseObject({
  name: backendNameSchema,
  isolation: isolationSchema.meta({ description: 'How strongly its sandboxes are isolated.' }),
  probe: z
    .looseObject({ ok: z.boolean().meta({ description: 'Whether the worker can use it now.' }) })
    .meta({ description: 'The last probe, with why and fix if it failed.' }),
  circuit: z
    .enum(['closed', 'open', 'half-open'])
    .optional()
    .meta({
      description:
        'open: its last sandboxes did not open, so the worker gives it no executions for some seconds. ' +
        'half-open: the next execution tries it. Shown only to admin keys.',
      example: 'closed',
    }),
  pool: z
    .looseObject({
      idle: z.int().meta({ description: 'Warm sandboxes that wait for an execution.', example: 2 }),
      taken_warm: z.int().meta({ description: 'Executions that got a warm sandbox.', example: 214 }),
      taken_cold: z.int().meta({ description: 'Executions that waited for a start.', example: 6 }),
      warm_failed: z.int().meta({ description: 'Warm starts that failed.', example: 0 }),
    })
    .nullish()
    .meta({
      description:
        'Its warm sandboxes. Totals count from the start of the worker. Null without a pool. Shown only to ' +
        'admin keys.',
    }),
})
type BackendReport = z.output<typeof backendReportSchema>

const workerReportSchema = z.looseObject({ at_ms: z.int(), backends: z.array(backendReportSchema) })

const summarySchema = z.strictObject({
  name: backendNameSchema,
  isolation: isolationSchema.meta({ description: 'How strongly its sandboxes are isolated.' }),
  available: z.boolean().meta({ description: 'Whether any worker can use it now.' }),
  workers: z
    .array(
      z.strictObject({
        worker: z.string().meta({
          description: 'The worker.',
          example: 'wrk_0123456789ab_01a1fa08335671eda83cd82154726441',
        }),
        report: backendReportSchema.meta({ description: 'What it says, with the backend’s capabilities.' }),
      }),
    )
    .meta({ description: 'What each worker says.' }),
})
/** What the fleet's workers report about one backend. */
export type BackendSummary = z.output<typeof summarySchema>

export function fleet(app: App, context: RouteContext): void {
  app.get(
    '/backends',
    {
      schema: {
        operationId: 'listBackends',
        tags: ['backends'],
        summary: 'What each worker says about its backends.',
        description:
          'Only admin keys see why a probe failed and what to do about it, because such texts name hosts, ' +
          'paths and addresses. Other keys get a general text instead.',
        response: {
          200: z.strictObject({
            backends: z.array(summarySchema).meta({ description: 'All of them, by name.' }),
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const backends = await readBackendReports(context)
      return { backends: isAdmin(request) ? backends : backends.map(withoutDetails) }
    },
  )

  app.post(
    '/backends/:backend/test',
    {
      schema: {
        operationId: 'testBackend',
        tags: ['backends'],
        summary: 'Run print(1+1) on a backend and wait for the result (30s unless ?wait= says otherwise).',
        description: 'An ordinary execution of the tenant: policy holds, and it counts against the caps.',
        params: z.strictObject({
          backend: z
            .string()
            .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'expected a backend name')
            .meta({ description: 'The backend.', example: 'docker' }),
        }),
        querystring: z.strictObject({
          wait: waitSchema.optional().meta({
            description: 'How long to wait for the ending, 0 to 60s, such as `30s` or `500ms`. Default: 30s.',
          }),
        }),
        body: z
          .strictObject({
            tenant_id: tenantQuery,
            template_id: nameSchema.optional().meta({
              description: 'The template. Needed if the tenant requires one. Default: none.',
              example: 'strict',
            }),
          })
          .optional(),
        response: { 200: resultSchema, 202: acceptedSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const { backend: name } = request.params
      const tenantId = oneTenant(request, request.body?.tenant_id)
      const reported = await readBackendReports(context)
      if (!isBackendName(name) && !reported.some((backend) => backend.name === name)) {
        throw new CofferdamError('backend_unknown')
      }
      const execution = executionRequestSchema.parse({
        tenant_id: tenantId,
        agent_id: TEST_AGENT,
        template_id: request.body?.template_id,
        backend: name,
        program: { type: 'script', language: 'python', source: 'print(1+1)' },
        traceparent: readTraceparent(request.headers.traceparent) ?? undefined,
      })
      const timeoutMs = request.query.wait ?? TEST_WAIT_MS
      const { status, body } = await enqueueAndWait(context, request, reply, execution, timeoutMs)
      return reply.code(status).send(body)
    },
  )
}

/**
 * Returns all backends that workers report in any cell that answers, by name, without stale or malformed
 * reports. Throws `queue_unavailable`, with several cells `cell_unavailable`.
 */
export async function readBackendReports({
  cells,
  now,
}: Pick<RouteContext, 'cells' | 'now'>): Promise<BackendSummary[]> {
  const byName = new Map<string, BackendSummary>()
  const byWorker = (await workerReports(cells.all)).sort(([a], [b]) => a.localeCompare(b))
  for (const [worker, text] of byWorker) {
    for (const report of parseReports(text, now())) {
      const { name, isolation, probe } = report
      const summary = byName.get(name) ?? { name, isolation, available: false, workers: [] }
      summary.available ||= probe.ok
      summary.workers.push({ worker, report })
      byName.set(name, summary)
    }
  }
  return [...byName.values()].sort((a, b) => a.name.localeCompare(b.name))
}

async function workerReports(cells: ReadonlyMap<number, Redis>): Promise<[worker: string, json: string][]> {
  const read = async (redis: Redis): Promise<[string, string][]> => {
    const all = await redis.hgetall(keysOf(redis).backends).catch((cause: unknown) => {
      throw new CofferdamError('queue_unavailable', undefined, { cause })
    })
    return Object.entries(all)
  }
  const [only, ...others] = cells.values()
  if (only !== undefined && others.length === 0) return await read(only)
  return (await askCells(cells, read)).answers.flatMap(({ answer }) => answer)
}

/**
 * The summary without figures of the fleet and without the details of failed probes. Of a failed probe, `why`
 * and `fix` stay with a general text, because the contract's Probe has them. All its other fields are
 * removed, also those that workers of another version add.
 */
function withoutDetails({ workers, ...summary }: BackendSummary): BackendSummary {
  return {
    ...summary,
    workers: workers.map(({ worker, report: { circuit: _circuit, pool: _pool, ...report } }) =>
      report.probe.ok ? { worker, report } : { worker, report: { ...report, probe: UNEXPLAINED } },
    ),
  }
}

const UNEXPLAINED = {
  ok: false,
  why: 'This worker cannot use the backend now. Only an admin key sees the reason.',
  fix: 'Use another backend, or ask an operator.',
}

function parseReports(text: string, nowMs: number): BackendReport[] {
  try {
    const { data } = workerReportSchema.safeParse(JSON.parse(text))
    return data === undefined || nowMs - data.at_ms > STALE_AFTER_MS ? [] : data.backends
  } catch {
    return []
  }
}
