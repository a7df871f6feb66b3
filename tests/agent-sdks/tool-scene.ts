/** A fleet with the API, some tenants, and a code tool for each of them. */
import { createClient, type HttpClient } from '@cofferdam/client'
import { createCodeTool, type CodeTool, type CodeToolOptions } from '@cofferdam/tools'
import { startFleet } from '../fleet.ts'

export interface ToolScene extends AsyncDisposable {
  url: string
  /** The client of a tenant, with the tenant's own key. */
  client(tenant: Tenant): HttpClient
  admin: HttpClient
  toolOf(tenant: Tenant, more?: Partial<CodeToolOptions>): CodeTool
}

const TENANTS = {
  acme: {},
  spent: { caps: { tenant_daily: 1 } },
  closed: { caps: { tenant_daily: 0 } },
  full: {},
  offline: { policy: { network: 'none' as const } },
}
export type Tenant = keyof typeof TENANTS

/** What a model would send. */
export const python = (source: string) => ({ language: 'python', source })

export async function openToolScene(): Promise<ToolScene> {
  await using owned = new AsyncDisposableStack()
  const fleet = owned.use(await startFleet())
  await fleet.runWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '2' })
  const api = await fleet.runApi()
  const connect = async (scope: 'admin' | { tenant_id: string }): Promise<HttpClient> => {
    const { key } = await fleet.store.keys.create(scope, 'test')
    return owned.use(createClient({ baseUrl: api.url, apiKey: key }))
  }
  const clients = new Map<Tenant, HttpClient>()
  for (const [name, options] of Object.entries(TENANTS)) {
    await fleet.createTenant(name, options)
    clients.set(name as Tenant, await connect({ tenant_id: name }))
  }
  const client = (tenant: Tenant): HttpClient => {
    const found = clients.get(tenant)
    if (found === undefined) throw new Error(`no tenant ${tenant}`)
    return found
  }
  const admin = await connect('admin')
  const all = owned.move()
  return {
    url: api.url,
    client,
    admin,
    toolOf: (tenant, more = {}) =>
      createCodeTool({ client: client(tenant), tenantId: tenant, agentId: 'analyst', ...more }),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
