/** Every route of the API. */
import { authenticate } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import { audit } from './audit.ts'
import { backends } from './backends.ts'
import { cancelExecution } from './cancel-execution.ts'
import { getArtifacts } from './get-artifacts.ts'
import { getEvents } from './get-events.ts'
import { getExecution } from './get-execution.ts'
import { getOutput } from './get-output.ts'
import { getTrace } from './get-trace.ts'
import { health } from './health.ts'
import { listExecutions } from './list-executions.ts'
import { mountedSandbox } from './mounted-sandbox.ts'
import { postExecution } from './post-execution.ts'
import { queue } from './queue.ts'
import { routines } from './routines.ts'
import { sessionFiles } from './session-files.ts'
import { sessions } from './sessions.ts'
import { tenantCallbackSecret } from './tenant-callback-secret.ts'
import { cancelTenant } from './cancel-tenant.ts'
import { tenantCaps } from './tenant-caps.ts'
import { tenantKeys } from './tenant-keys.ts'
import { tenantPolicyEvents } from './tenant-policy-events.ts'
import { tenantTemplates } from './tenant-templates.ts'
import { tenantUsage } from './tenant-usage.ts'
import { tenantWorkspaces } from './tenant-workspaces.ts'
import { tenants } from './tenants.ts'

const V1 = [
  postExecution,
  listExecutions,

  getExecution,
  getEvents,
  getOutput,
  getTrace,
  getArtifacts,
  cancelExecution,
  sessions,
  sessionFiles,
  tenants,
  tenantCaps,
  tenantUsage,
  tenantPolicyEvents,
  cancelTenant,
  tenantKeys,
  tenantTemplates,
  tenantCallbackSecret,
  tenantWorkspaces,
  routines,
  audit,
  backends,
  queue,
]

/** Adds all routes: `/v1` and `/api/sandbox` behind keys, health beside it. */
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
