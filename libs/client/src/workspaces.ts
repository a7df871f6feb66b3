/** Workspaces of a tenant: named sets of files that executions get and change. */
import type { Operations } from './wire.ts'
import { part, type Api, type CallOptions } from './api.ts'

export type WorkspaceSummary = Operations['listWorkspaces']['result']['workspaces'][number]
export type Workspace = Operations['getWorkspace']['result']

export interface Workspaces {
  /** By name. There are at most 1,000. */
  list(tenantId: string, options?: CallOptions): Promise<WorkspaceSummary[]>
  /** All files as a zip archive in base64, with the version. */
  get(tenantId: string, name: string, options?: CallOptions): Promise<Workspace>
  /**
   * Replaces all files, or creates the workspace. Throws `conflict` when its version is not
   * `expected_version`.
   */
  put(
    tenantId: string,
    name: string,
    body: Operations['putWorkspace']['body'],
    options?: CallOptions,
  ): Promise<Operations['putWorkspace']['result']>
  delete(tenantId: string, name: string, options?: CallOptions): Promise<void>
}

export function workspacesOf(api: Api): Workspaces {
  const at = (tenantId: string, name: string): string => `/tenants/${part(tenantId)}/workspaces/${part(name)}`
  return {
    async list(tenantId, options) {
      const path = `/tenants/${part(tenantId)}/workspaces`
      return (await api.json<Operations['listWorkspaces']['result']>({ method: 'GET', path, ...options }))
        .workspaces
    },
    get: (tenantId, name, options) => api.json({ method: 'GET', path: at(tenantId, name), ...options }),
    // The client does not retry this call when the answer is lost: if the write succeeded, a retry would fail
    // with a version conflict. The caller has to check.
    put: (tenantId, name, body, options) =>
      api.json({ method: 'PUT', path: at(tenantId, name), body, repeat: 'if_refused', ...options }),
    delete: (tenantId, name, options) => api.json({ method: 'DELETE', path: at(tenantId, name), ...options }),
  }
}
