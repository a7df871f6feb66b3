/** GET /v1/queue: depth, age and workers of the fleet. Admin, since it shows the load of all tenants. */
import { z } from 'zod'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES } from '../wire-schemas.ts'

/** Adds the route. */
export function queue(app: App, context: RouteContext): void {
  app.get(
    '/queue',
    {
      config: { admin: true },
      schema: {
        operationId: 'getQueue',
        tags: ['queue'],
        summary: 'What waits and runs in each lane, and the workers. Admin.',
        response: { 200: z.looseObject({}), ...FAILURES },
      },
    },
    async () => ({ ...(await context.producer.stats()) }),
  )
}
