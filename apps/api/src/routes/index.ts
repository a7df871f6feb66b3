/** Every route of the API. */
import { authenticate } from '../authenticate.ts'
import { signInRoutes } from '../dashboard/sign-in-routes.ts'
import type { BuildServer } from '../mcp/endpoint.ts'
import type { App, RouteContext } from '../route-context.ts'
import { adminKeys } from './admin-keys.ts'
import { audit } from './audit.ts'
import { events } from './events.ts'
import { executionCompare } from './execution-compare.ts'
import { executionEvents } from './execution-events.ts'
import { executionFiles } from './execution-files.ts'
import { executionList } from './execution-list.ts'
import { executionRerun } from './execution-rerun.ts'
import { executionWhy } from './execution-why.ts'
import { executions } from './executions.ts'
import { fleet } from './fleet.ts'
import { health } from './health.ts'
import { mcp } from './mcp.ts'
import { mountedSandbox } from './mounted-sandbox.ts'
import { queue } from './queue.ts'
import { queueTenants } from './queue-tenants.ts'
import { routineRuns } from './routine-runs.ts'
import { routines } from './routines.ts'
import { sessionFiles } from './session-files.ts'
import { sessionOutputs } from './session-outputs.ts'
import { sessionPause } from './session-pause.ts'
import { sessions } from './sessions.ts'
import { stats } from './stats.ts'
import { tenantCaps } from './tenant-caps.ts'
import { tenantCredentials } from './tenant-credentials.ts'
import { tenantPolicy } from './tenant-policy.ts'
import { tenantWorkspaces } from './tenant-workspaces.ts'
import { tenants } from './tenants.ts'

/** In the order of the OpenAPI document. */
const V1 = [
  executions,
  executionList,
  executionEvents,
  executionWhy,
  executionFiles,
  executionRerun,
  executionCompare,
  sessions,
  sessionFiles,
  sessionOutputs,
  sessionPause,
  tenants,
  tenantPolicy,
  tenantCaps,
  tenantCredentials,
  adminKeys,
  events,
  tenantWorkspaces,
  routines,
  routineRuns,
  audit,
  queue,
  queueTenants,
  stats,
  fleet,
]

/**
 * Adds all routes. `/v1`, `/api/sandbox` and `/mcp` need a key, health checks do not. Only `/v1` also takes
 * the cookie of the dashboard.
 */
export function addRoutes(app: App, context: RouteContext, buildMcp?: BuildServer): void {
  health(app, context)
  signInRoutes(app, context)
  const { keys, signIns } = context
  for (const [prefix, routes, accepted] of [
    ['/v1', V1, { keys, signIns }],
    ['/api/sandbox', [mountedSandbox], { keys }],
  ] as const)
    void app.register(
      async (inside) => {
        authenticate(inside, accepted)
        for (const add of routes) add(inside as App, context)
      },
      { prefix },
    )
  void app.register(async (inside) => mcp(inside as App, context, buildMcp))
}
