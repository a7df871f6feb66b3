/** The fleet itself: its queue, its backends and its figures. */
import type { Accepted, ExecutionResult, Operations, QueueTenants, Stats } from './wire.ts'
import { part, type Api, type CallOptions } from './api.ts'
import type { List } from './pages.ts'
import type { Settle } from './sessions.ts'

export type BackendSummary = Operations['listBackends']['result']['backends'][number]

export type AdminKey = Operations['listAdminKeys']['result']['keys'][number]
export type FleetEvent = Operations['listEvents']['result']['events'][number]

export interface Fleet {
  /** What waits and runs in each lane, and the workers. Needs an admin key. */
  queue(options?: CallOptions): Promise<Operations['getQueue']['result']>
  /**
   * For each tenant: its waiting and running executions, its actual share, its due share, and its position in
   * the order of service. Needs an admin key.
   */
  queueTenants(query?: Operations['listQueueTenants']['query'], options?: CallOptions): Promise<QueueTenants>
  /** Attempts that ended, by minute: of the key's tenant, or of all with an admin key. Default: one hour. */
  stats(query?: Operations['getStats']['query'], options?: CallOptions): Promise<Stats>
  /** What each worker says about its backends. */
  backends(options?: CallOptions): Promise<BackendSummary[]>
  /** Runs print(1+1) on a backend, as an ordinary execution of the tenant, and waits for the result. */
  testBackend(
    name: string,
    body?: NonNullable<Operations['testBackend']['body']>,
    options?: CallOptions,
  ): Promise<ExecutionResult>
  /** Who changed or did what: of the key's tenant, or in the whole fleet with an admin key. Newest first. */
  events(
    query?: Operations['listEvents']['query'],
    options?: CallOptions,
  ): List<FleetEvent, Operations['listEvents']['result']>
  /** Admin keys, the valid ones first. Like the next two, it needs an admin key. */
  adminKeys(options?: CallOptions): Promise<AdminKey[]>
  /** Makes an admin key. One with `read_only` may change nothing. Only this answer contains the key. */
  createAdminKey(
    body: Operations['createAdminKey']['body'],
    options?: CallOptions,
  ): Promise<Operations['createAdminKey']['result']>
  /** Throws `conflict` for the last admin key that may change things. */
  revokeAdminKey(keyId: string, options?: CallOptions): Promise<void>
}

export function fleetOf(api: Api, settle: Settle): Fleet {
  return {
    queue: (options) => api.json({ method: 'GET', path: '/queue', ...options }),
    queueTenants: (query, options) => api.json({ method: 'GET', path: '/queue/tenants', query, ...options }),
    stats: (query, options) => api.json({ method: 'GET', path: '/stats', query, ...options }),
    async backends(options) {
      const call = { method: 'GET', path: '/backends', ...options } as const
      return (await api.json<Operations['listBackends']['result']>(call)).backends
    },
    async testBackend(name, body = {}, options = {}) {
      const { status, body: answer } = await api.answer<ExecutionResult | Accepted>({
        method: 'POST',
        path: `/backends/${part(name)}/test`,
        body,
        // The API waits up to 30 s.
        timeoutMs: 45_000,
        repeat: 'if_refused',
        ...options,
      })
      return status === 202 ? settle(answer as Accepted, options) : (answer as ExecutionResult)
    },
    events: (query, options) => api.list('/events', 'events', query, options),
    async adminKeys(options) {
      const call = { method: 'GET', path: '/keys', ...options } as const
      return (await api.json<Operations['listAdminKeys']['result']>(call)).keys
    },
    // Not repeated after a lost answer: the key may exist, and nobody would know its secret.
    createAdminKey: (body, options) =>
      api.json({ method: 'POST', path: '/keys', body, repeat: 'if_refused', ...options }),
    revokeAdminKey: (keyId, options) =>
      api.json({ method: 'DELETE', path: `/keys/${part(keyId)}`, ...options }),
  }
}
