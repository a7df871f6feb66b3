/** GET /v1/executions/{id}/compare: the results of two ended executions side by side. */
import { CofferdamError, comparisonSchema, executionIdSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { tenantScope } from '../authenticate.ts'
import { compare } from '../compare/compare.ts'
import { requireEnded } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import { executionParams, FAILURES } from '../wire-schemas.ts'

export function executionCompare(app: App, context: RouteContext): void {
  app.get(
    '/executions/:id/compare',
    {
      schema: {
        operationId: 'compareExecutions',
        tags: ['executions'],
        summary: 'Two ended executions side by side: endings, outputs, usage.',
        description: 'The outputs in the two results are compared line by line.',
        params: executionParams,
        querystring: z.strictObject({
          with: executionIdSchema.optional().meta({
            description: 'The execution to compare with. Default: the rerun_of of the execution in the path.',
          }),
        }),
        response: { 200: comparisonSchema, ...FAILURES },
      },
    },
    async (request) => {
      const tenant = tenantScope(request)
      const second = await requireEnded(context, tenant, request.params.id)
      const other = request.query.with ?? second.last.rerun_of
      if (other === null)
        throw new CofferdamError(
          'invalid_request',
          'The execution is no rerun. Name the other one with the query parameter `with`.',
        )
      return compare(await requireEnded(context, tenant, other), second)
    },
  )
}
