/** Adds the paths below `/api/sandbox` to an HTTP server. */
import { addConfigRoutes } from './config-routes.ts'
import { addProvisionRoutes } from './provision-routes.ts'
import type { App, RouteDeps, RouteParts } from './route-deps.ts'
import { createSandboxConfigs } from './settings-table.ts'
import { addTestRoute } from './test-route.ts'

/** Adds the routes. `app` already requires API keys and has the path prefix. */
export function addSandboxRoutes(app: App, deps: RouteDeps): void {
  const parts: RouteParts = { ...deps, configs: createSandboxConfigs(deps.store) }
  addConfigRoutes(app, parts)
  addTestRoute(app, parts)
  addProvisionRoutes(app, parts)
}
