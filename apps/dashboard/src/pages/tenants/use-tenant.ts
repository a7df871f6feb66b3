/** Hooks that load what the pages of tenants show, and load it again at intervals. */
import type { Operations, ReadableTenant, UsageNow } from '@cofferdam/client'
import { read } from '../../api/call.ts'
import { isAdmin } from '../../api/session.ts'
import { useResource, type Resource } from '../../api/use-resource.ts'
import { isListed, loadOf, tenantPath, type Load } from './tenant.ts'

const EVERY_MS = 5000
/** The API’s readings of the whole queue are up to ten seconds old. */
const LOAD_EVERY_MS = 10_000
/** The most rows that the API gives. */
const MOST_ROWS = '500'

type QueueTenants = Operations['listQueueTenants']['result']

export const useTenant = (id: string): Resource<ReadableTenant> =>
  useResource(id, (signal) => read<ReadableTenant>(tenantPath(id), { signal }), EVERY_MS)

export const useUsage = (id: string): Resource<UsageNow> =>
  useResource(id, (signal) => read<UsageNow>(tenantPath(id, 'usage'), { signal }), EVERY_MS)

/** Tenants that have something in the queue, the most waiting first. Null for keys that may not see them. */
export const useQueueTenants = (): Resource<QueueTenants | null> =>
  useResource(
    `queue ${isAdmin.value}`,
    (signal) =>
      isAdmin.value
        ? read<QueueTenants>('/v1/queue/tenants', { query: { sort: 'waiting', limit: MOST_ROWS }, signal })
        : Promise.resolve(null),
    LOAD_EVERY_MS,
  )

/** What waits and runs of a tenant. `load` is null while it is not known. */
export function useLoad(id: string): { load: Load | null; reload: () => void } {
  const { data, reload } = useResource(
    `${id} ${isAdmin.value}`,
    async (signal) => (isAdmin.value ? readLoad(id, signal) : null),
    LOAD_EVERY_MS,
  )
  return { load: data, reload }
}

/** A tenant without a row in the queue may have delayed executions. Null if they are too many to count. */
async function readLoad(id: string, signal: AbortSignal): Promise<Load | null> {
  const query = { sort: 'waiting', limit: MOST_ROWS }
  const queue = await read<QueueTenants>('/v1/queue/tenants', { query, signal })
  const load = loadOf(queue, id)
  if (load === null || isListed(queue, id)) return load
  const { executions, next_cursor: next } = await read<Operations['listExecutions']['result']>(
    '/v1/executions',
    {
      query: { tenant_id: id, status: 'live', limit: MOST_ROWS },
      signal,
    },
  )
  const running = executions.filter(({ status }) => status === 'running').length
  return next === null ? { due: 0, waiting: executions.length - running, running } : null
}
