/** Tenants: what they may do and use, what they used, and their keys. Most of it needs an admin key. */
import type {
  Operations,
  ReadableTenant,
  ReadableTenantPolicy,
  Template,
  Tenant,
  TenantCaps,
  TenantPolicy,
} from './wire.ts'
import { part, type Api, type CallOptions } from './api.ts'
import type { List } from './pages.ts'

type Body<Name extends keyof Operations> = Operations[Name]['body']
type Result<Name extends keyof Operations> = Operations[Name]['result']
type Query<Name extends keyof Operations> = Operations[Name]['query']

export type ApiKey = Result<'listKeys'>['keys'][number]
export type PolicyEvent = Result<'listPolicyEvents'>['events'][number]
/** How much of each cap is used now. */
export type UsageNow = Extract<Result<'getUsage'>, { tenant_daily: unknown }>
/** What was used in a range of time, and what it cost. */
export type UsageReport = Exclude<Result<'getUsage'>, UsageNow>

export interface Tenants {
  create(body: Body<'createTenant'>, options?: CallOptions): Promise<Tenant>
  /** All tenants, by ID. */
  list(query?: Query<'listTenants'>, options?: CallOptions): List<Tenant, Result<'listTenants'>>
  get(id: string, options?: CallOptions): Promise<ReadableTenant>
  /**
   * Cancels executions of the tenant, and returns after about five seconds at most. Call it again with
   * `next_cursor` until that is null.
   */
  cancel(id: string, body: Body<'cancelTenant'>, options?: CallOptions): Promise<Result<'cancelTenant'>>
  policy(id: string, options?: CallOptions): Promise<ReadableTenantPolicy>
  replacePolicy(id: string, body: Body<'putPolicy'>, options?: CallOptions): Promise<TenantPolicy>
  changePolicy(id: string, body: Body<'patchPolicy'>, options?: CallOptions): Promise<TenantPolicy>
  /** Changes of policy, caps and templates, newest first. */
  policyEvents(
    id: string,
    query?: Query<'listPolicyEvents'>,
    options?: CallOptions,
  ): List<PolicyEvent, Result<'listPolicyEvents'>>
  templates(id: string, options?: CallOptions): Promise<Template[]>
  template(id: string, template: string, options?: CallOptions): Promise<Template>
  putTemplate(
    id: string,
    template: string,
    body: Body<'putTemplate'>,
    options?: CallOptions,
  ): Promise<Template>
  /** Null means the default of the fleet. A cap of 0 is the kill switch. */
  caps(id: string, options?: CallOptions): Promise<TenantCaps>
  replaceCaps(id: string, body: Body<'putCaps'>, options?: CallOptions): Promise<TenantCaps>
  changeCaps(id: string, body: Body<'patchCaps'>, options?: CallOptions): Promise<TenantCaps>
  /** How much of the tenant's caps is used now. With `agent_id`, also of the agent's hourly cap. */
  usage(id: string, query?: Pick<Query<'getUsage'>, 'agent_id'>, options?: CallOptions): Promise<UsageNow>
  /** Sums over audit rows. Without `from`: the last 30 days. */
  usageReport(
    id: string,
    query: Omit<Query<'getUsage'>, 'agent_id'>,
    options?: CallOptions,
  ): Promise<UsageReport>
  /** Makes an API key. Only this answer contains it. */
  createKey(id: string, body: Body<'createKey'>, options?: CallOptions): Promise<Result<'createKey'>>
  keys(id: string, options?: CallOptions): Promise<ApiKey[]>
  revokeKey(id: string, keyId: string, options?: CallOptions): Promise<void>
  /** Makes the secret that callbacks are signed with. Only this answer contains it. */
  rotateCallbackSecret(id: string, options?: CallOptions): Promise<Result<'rotateCallbackSecret'>>
  /** When the secret was made. Throws `not_found` when there is none. */
  callbackSecret(id: string, options?: CallOptions): Promise<Result<'getCallbackSecret'>>
  deleteCallbackSecret(id: string, options?: CallOptions): Promise<void>
}

export function tenantsOf(api: Api): Tenants {
  const get = <T>(path: string, options?: CallOptions): Promise<T> =>
    api.json({ method: 'GET', path, ...options })
  const remove = (path: string, options?: CallOptions): Promise<void> =>
    api.json({ method: 'DELETE', path, ...options })
  const put = <T>(path: string, body: unknown, options?: CallOptions): Promise<T> =>
    api.json({ method: 'PUT', path, body, ...options })
  const patch = <T>(path: string, body: unknown, options?: CallOptions): Promise<T> =>
    api.json({ method: 'PATCH', path, body, ...options })
  // The client does not retry these calls when the answer is lost. The call may have succeeded, and nobody
  // would know the secret that it made.
  const make = <T>(path: string, body: unknown, options?: CallOptions): Promise<T> =>
    api.json({ method: 'POST', path, body, repeat: 'if_refused', ...options })

  return {
    create: (body, options) => make('/tenants', body, options),
    list: (query, options) => api.list('/tenants', 'tenants', query, options),
    get: (id, options) => get(at(id), options),
    cancel: (id, body, options) => api.json({ method: 'POST', path: at(id, 'cancel'), body, ...options }),
    policy: (id, options) => get(at(id, 'policy'), options),
    replacePolicy: (id, body, options) => put(at(id, 'policy'), body, options),
    changePolicy: (id, body, options) => patch(at(id, 'policy'), body, options),
    policyEvents: (id, query, options) => api.list(at(id, 'policy', 'events'), 'events', query, options),
    templates: async (id, options) =>
      (await get<Result<'listTemplates'>>(at(id, 'templates'), options)).templates,
    template: (id, template, options) => get(at(id, 'templates', template), options),
    putTemplate: (id, template, body, options) => put(at(id, 'templates', template), body, options),
    caps: (id, options) => get(at(id, 'caps'), options),
    replaceCaps: (id, body, options) => put(at(id, 'caps'), body, options),
    changeCaps: (id, body, options) => patch(at(id, 'caps'), body, options),
    usage: (id, query, options) => api.json({ method: 'GET', path: at(id, 'usage'), query, ...options }),
    usageReport: (id, query, options) =>
      api.json({ method: 'GET', path: at(id, 'usage'), query: { group_by: 'day', ...query }, ...options }),
    createKey: (id, body, options) => make(at(id, 'keys'), body, options),
    keys: async (id, options) => (await get<Result<'listKeys'>>(at(id, 'keys'), options)).keys,
    revokeKey: (id, keyId, options) => remove(at(id, 'keys', keyId), options),
    rotateCallbackSecret: (id, options) => make(at(id, 'callback-secret'), {}, options),
    callbackSecret: (id, options) => get(at(id, 'callback-secret'), options),
    deleteCallbackSecret: (id, options) => remove(at(id, 'callback-secret'), options),
  }
}

const at = (id: string, ...rest: string[]): string => `/tenants/${[id, ...rest].map(part).join('/')}`
