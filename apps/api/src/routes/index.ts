/** Every route of the API. */
import { authenticate } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { audit } from './audit.ts'
import { executionEvents } from './execution-events.ts'
import { executionFiles } from './execution-files.ts'
import { executionList } from './execution-list.ts'
import { executions } from './executions.ts'
import { fleet } from './fleet.ts'
import { health } from './health.ts'
import { mountedSandbox } from './mounted-sandbox.ts'
import { routineRuns } from './routine-runs.ts'
import { routines } from './routines.ts'
import { sessionFiles } from './session-files.ts'
import { sessionOutputs } from './session-outputs.ts'
import { sessions } from './sessions.ts'
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
  executionFiles,
  sessions,
  sessionFiles,
  sessionOutputs,
  tenants,
  tenantPolicy,
  tenantCaps,
  tenantCredentials,
  tenantWorkspaces,
  routines,
  routineRuns,
  audit,
  fleet,
]

/** Adds all routes. `/v1` and `/api/sandbox` need a key, health checks do not. */
export function addRoutes(app: App, context: RouteContext): void {
  health(app, context)
  for (const [prefix, routes] of [
    ['/v1', V1],
    ['/api/sandbox', [mountedSandbox]],
  ] as const)
    void app.register(
      async (inside) => {
        authenticate(inside, context.keys)
        for (const add of routes) add(inside as App, context)
      },
      { prefix },
    )
}
