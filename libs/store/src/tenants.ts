/** Policy and caps of tenants. The database writes the events; this module names their author. */
import {
  CofferdamError,
  nameSchema,
  parse,
  tenantCapsPatchSchema,
  tenantCapsSchema,
  tenantPolicyPatchSchema,
  tenantPolicySchema,
  type TenantCaps,
  type TenantPolicy,
} from '@cofferdam/contract'
import { sql, type Kysely } from 'kysely'
import { nameActor, type Author } from './author.ts'
import { defaultCaps, defaultPolicy } from './default-policy.ts'
import { defined } from './defined.ts'
import {
  readEvents,
  recordAction,
  type EventQuery,
  type FleetEvent,
  type TenantAction,
  type TenantPolicyEvent,
} from './policy-events.ts'
import { sqlState, translating } from './store-errors.ts'
import type { Database, TenantRow } from './tables.ts'

export interface Tenant {
  policy: TenantPolicy
  caps: TenantCaps
}

export type PolicyPatch = Partial<Omit<TenantPolicy, 'tenant_id'>>

/** Every method throws `store_unavailable`, and `invalid_request` for invalid values. */
export interface Tenants {
  get(tenantId: string): Promise<Tenant | null>
  /** By id, at most `limit` (default and maximum 1,000), after the id `after`. */
  list(options?: { limit?: number; after?: string }): Promise<Tenant[]>
  /**
   * Omitted fields get their defaults. Outside of the standard tier the sandbox is off by default. Throws
   * `conflict` when the tenant exists.
   */
  create(
    tenant: { tenant_id: string; policy?: PolicyPatch; caps?: Partial<TenantCaps> },
    actor: Author,
  ): Promise<Tenant>
  /**
   * Applies the tier first: leaving `standard` disables the sandbox (two events), and a patch that leaves it
   * and enables the sandbox throws `conflict`. A patch that changes nothing writes nothing. Throws
   * `not_found`.
   */
  setPolicy(
    tenantId: string,
    patch: PolicyPatch,
    actor: Author,
    source?: 'api' | 'reconciler',
  ): Promise<Tenant>
  /** Replaces the given fields. An `agents` map is replaced as a whole. Throws `not_found`. */
  setCaps(
    tenantId: string,
    caps: Partial<TenantCaps>,
    actor: Author,
    source?: 'api' | 'reconciler',
  ): Promise<Tenant>
  /**
   * Returns those of the given tenants that are stopped. A tenant is stopped while one of its caps is 0 (kill
   * switch).
   */
  stopped(tenantIds: readonly string[]): Promise<Set<string>>
  /** Newest first. */
  events(tenantId: string, options?: EventQuery): Promise<TenantPolicyEvent[]>
  /** Events of all tenants and of the fleet, newest first. */
  allEvents(options?: EventQuery): Promise<FleetEvent[]>
  /** Adds an event for an action that changed no row. `details` becomes the event's field `after`. */
  recordAction(tenantId: string, action: TenantAction, details: object, actor: Author): Promise<void>
}

const MAX_LIST = 1000

export function createTenants(db: Kysely<Database>): Tenants {
  const get = async (tenantId: string): Promise<Tenant | null> => {
    const row = await db
      .selectFrom('tenants')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .executeTakeFirst()
    return row === undefined ? null : toTenant(row)
  }

  const change = (
    tenantId: string,
    by: { actor: Author; source: 'api' | 'reconciler' },
    decide: (now: Tenant) => Tenant,
  ): Promise<Tenant> =>
    changing(async () =>
      db.transaction().execute(async (tx) => {
        await nameActor(tx, by)
        const row = await tx
          .selectFrom('tenants')
          .selectAll()
          .where('tenant_id', '=', tenantId)
          .forUpdate()
          .executeTakeFirst()
        if (row === undefined)
          throw new CofferdamError('not_found', `There is no tenant ${tenantId.slice(0, 128)}.`)
        const before = toTenant(row)
        const after = decide(before)
        if (sameJson(before, after)) return before
        await tx.updateTable('tenants').set(toRow(after)).where('tenant_id', '=', tenantId).execute()
        return after
      }),
    )

  return {
    get: (tenantId) => changing(() => get(tenantId)),
    list: ({ limit = MAX_LIST, after } = {}) =>
      changing(async () => {
        const all = db.selectFrom('tenants').selectAll().orderBy('tenant_id').limit(Math.min(limit, MAX_LIST))
        const rows = await (after === undefined ? all : all.where('tenant_id', '>', after)).execute()
        return rows.map(toTenant)
      }),
    create: (input, actor) =>
      changing(async () => {
        const tenantId = parse(nameSchema, input.tenant_id, 'tenant_id')
        const wanted = defined(parse(tenantPolicyPatchSchema, input.policy ?? {}, 'policy'))
        const policy = { ...defaultPolicy(tenantId), ...wanted }
        // Outside of the standard tier, the sandbox is off by default.
        if (policy.compliance_tier !== 'standard') policy.sandbox_enabled = wanted.sandbox_enabled === true
        const caps = { ...defaultCaps(), ...defined(parse(tenantCapsPatchSchema, input.caps ?? {}, 'caps')) }
        await db.transaction().execute(async (tx) => {
          await nameActor(tx, { actor, source: 'api' })
          await tx
            .insertInto('tenants')
            .values({ tenant_id: tenantId, ...toRow({ policy, caps }) })
            .execute()
        })
        return { policy, caps }
      }),
    setPolicy: async (tenantId, patch, actor, source = 'api') => {
      const wanted = defined(parse(tenantPolicyPatchSchema, patch, 'policy'))
      return await change(tenantId, { actor, source }, (now) => ({
        ...now,
        policy: decidePolicyChange(now.policy, wanted),
      }))
    },
    setCaps: async (tenantId, caps, actor, source = 'api') => {
      const wanted = defined(parse(tenantCapsPatchSchema, caps, 'caps'))
      return await change(tenantId, { actor, source }, (now) => ({
        ...now,
        caps: { ...now.caps, ...wanted },
      }))
    },
    stopped: (tenantIds) =>
      changing(async () => {
        const rows = await db
          .selectFrom('tenants')
          .select('tenant_id')
          .where(sql<boolean>`tenant_id = any(${[...tenantIds]}::text[])`)
          .where(sql<boolean>`0 in (tenant_daily, agent_hourly, tenant_daily_cpu_seconds, tenant_daily_cost)`)
          .execute()
        return new Set(rows.map((row) => row.tenant_id))
      }),
    events: (tenantId, options) =>
      changing(async () => {
        const found = await readEvents(db, tenantId, options)
        return found.map((event) => ({ ...event, tenant_id: tenantId }))
      }),
    allEvents: (options) => changing(() => readEvents(db, null, options)),
    recordAction: (tenantId, action, details, actor) =>
      changing(() => recordAction(db, tenantId, action, details, actor)),
  }
}

/**
 * The policy after a patch. Leaving the standard tier disables the sandbox, as the database also does. To
 * enable the sandbox outside of that tier, the caller must send a second patch. A patch that does both throws
 * `conflict`.
 */
function decidePolicyChange(now: TenantPolicy, patch: PolicyPatch): TenantPolicy {
  const next = { ...now, ...patch }
  const leaves = now.compliance_tier === 'standard' && next.compliance_tier !== 'standard'
  if (!leaves) return next
  if (patch.sandbox_enabled === true)
    throw new CofferdamError(
      'conflict',
      `Tenant ${next.tenant_id} leaves the standard tier, which switches its sandbox off: ` +
        'switch it on in a second step, when its templates force what the tier needs.',
    )
  return { ...next, sandbox_enabled: false }
}

function toTenant(row: TenantRow): Tenant {
  // A newer release's migration may have added columns that this one does not know.
  const named = (names: object) =>
    Object.fromEntries(Object.entries(row).filter(([name]) => Object.hasOwn(names, name)))
  return {
    policy: tenantPolicySchema.parse(named(tenantPolicySchema.shape)),
    caps: tenantCapsSchema.parse(named(tenantCapsSchema.shape)),
  }
}

function toRow({ policy, caps }: Tenant) {
  const { tenant_id: _id, ...columns } = policy
  return {
    ...columns,
    network: JSON.stringify(policy.network),
    packages: JSON.stringify(policy.packages),
    commands: JSON.stringify(policy.commands),
    templates: JSON.stringify(policy.templates),
    ...caps,
    agents: JSON.stringify(caps.agents),
  }
}

const sameJson = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

async function changing<T>(work: () => Promise<T>): Promise<T> {
  return await translating(
    'a tenant',
    async () => {
      try {
        return await work()
      } catch (error) {
        if (sqlState(error) === '23505') throw new CofferdamError('conflict', 'The tenant exists already.')
        throw error
      }
    },
    'input',
  )
}
