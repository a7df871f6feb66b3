/** Mounts the sandbox routes of one customer's package below `/api/sandbox`. */
import { addSandboxRoutes } from '@cofferdam/polyclaw'
import { authorName } from '@cofferdam/store'
import { actorOf } from '../authenticate.ts'
import { readBackendReports } from './fleet.ts'
import { enqueueAndWait } from '../enqueue-and-wait.ts'
import type { App, RouteContext } from '../route-context.ts'
import { readTraceparent } from '../trace-id.ts'
import {
  changeEventSchema,
  cursorQuery,
  DEFAULT_PAGE,
  FAILURES,
  limitQuery,
  nextCursorSchema,
} from '../wire-schemas.ts'

export function mountedSandbox(app: App, context: RouteContext): void {
  const { store, cells, pools, draining, cursors } = context
  addSandboxRoutes(app, {
    store,
    redisOf: cells.ofTenant,
    ...(pools === undefined ? {} : { pools }),
    draining,
    actorOf: (request) => authorName(actorOf(request)),
    traceparentOf: ({ headers }) => readTraceparent(headers.traceparent) ?? undefined,
    run: (...asked) => enqueueAndWait(context, ...asked),
    backendReports: () => readBackendReports(context),
    cursors,
    wire: {
      failures: FAILURES,
      limitQuery,
      cursorQuery,
      nextCursorSchema,
      changeEventSchema,
      defaultPage: DEFAULT_PAGE,
    },
  })
}
