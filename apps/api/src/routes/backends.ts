/** GET /v1/backends, and POST /v1/backends/{name}/test, which runs a tiny program there. */
import { isBackendName } from '@cofferdam/backends'
import {
  CofferdamError,
  acceptedSchema,
  executionRequestSchema,
  isolationSchema,
  nameSchema,
  resultSchema,
} from '@cofferdam/contract'
import { z } from 'zod'
import { requireTenant, tenantScope } from '../authenticate.ts'
import { backendReportSchema, readBackendReports } from '../backend-reports.ts'
import { parseDurationMs, waitSchema } from '../duration.ts'
import { enqueueAndWait } from '../enqueue-and-wait.ts'
import type { App, RouteContext } from '../route-context.ts'
import { readTraceparent } from '../trace-id.ts'
import { FAILURES } from '../wire-schemas.ts'

/** The agent that test executions are charged to. */
const TEST_AGENT = 'cofferdam-backend-test'

const summarySchema = z.strictObject({
  name: z.string(),
  isolation: isolationSchema,
  available: z.boolean().meta({ description: 'Whether any worker can use it now.' }),
  workers: z.array(z.strictObject({ worker: z.string(), report: backendReportSchema })),
})

/** Adds the routes. */
export function backends(app: App, context: RouteContext): void {
  app.get(
    '/backends',
    {
      schema: {
        operationId: 'listBackends',
        tags: ['backends'],
        summary: 'What each worker says about its backends.',
        response: { 200: z.strictObject({ backends: z.array(summarySchema) }), ...FAILURES },
      },
    },
    async () => ({ backends: await readBackendReports(context.redis, context.now()) }),
  )

  app.post(
    '/backends/:name/test',
    {
      schema: {
        operationId: 'testBackend',
        tags: ['backends'],
        summary: 'Run print(1+1) on a backend and wait for the result (30s unless ?wait= says otherwise).',
        description: 'An ordinary execution of the tenant: policy holds, and it counts against the caps.',
        params: z.strictObject({
          name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'expected a backend name'),
        }),
        querystring: z.strictObject({ wait: waitSchema.optional() }),
        body: z
          .strictObject({
            tenant_id: nameSchema.optional().meta({ description: 'Needed with an admin key.' }),
            template_id: nameSchema.optional(),
          })
          .optional(),
        response: { 200: resultSchema, 202: acceptedSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const tenantId = request.body?.tenant_id ?? tenantScope(request)
      if (tenantId === null) {
        throw new CofferdamError('invalid_request', 'An admin key must say for which tenant_id to test.')
      }
      requireTenant(request, tenantId)
      const reported = await readBackendReports(context.redis, context.now())
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
      const timeoutMs = parseDurationMs(request.query.wait ?? '30s') ?? 0
      const { status, body } = await enqueueAndWait(context, request, reply, execution, timeoutMs)
      return reply.code(status).send(body)
    },
  )
}
