/** Policy and caps of tenants. The database writes the events (0002-tenants.sql); here stands who did it. */
import {
  CofferdamError,
  nameSchema,
  parse,
  tenantCapsSchema,
  tenantPolicySchema,
  type TenantCaps,
  type TenantPolicy,
} from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import { defaultCaps, defaultPolicy } from './default-policy.ts'
import { sqlState, translating } from './store-errors.ts'
import type { Database, TenantRow } from './tables.ts'

export interface Tenant {
  policy: TenantPolicy
  caps: TenantCaps
}

export interface TenantPolicyEvent {
  id: number
  tenant_id: string
  actor: string
  event_type: string
  before: unknown
  after: unknown
  source: 'api' | 'reconciler' | 'sql'
  created_at: string
}

export type PolicyPatch = Partial<Omit<TenantPolicy, 'tenant_id'>>

/** Every method throws `store_unavailable`, and `invalid_request` for values the schema refuses. */
export interface Tenants {
  /** Null when there is none. */
  get(tenantId: string): Promise<Tenant | null>
  /** By id; at most `limit` (default and bound 1,000), after the id `after`. */
  list(options?: { limit?: number; after?: string }): Promise<Tenant[]>
  /** Left-out parts are the defaults of default-policy.ts. Throws `conflict` when it exists or is on off-standard. */
  create(
    tenant: { tenant_id: string; policy?: PolicyPatch; caps?: Partial<TenantCaps> },
    actor: string,
  ): Promise<Tenant>
  /**
   * The tier is applied first: leaving `standard` switches the sandbox off (two events), enabling it off-standard
   * throws `conflict`. A patch that changes nothing writes nothing. Throws `not_found`.
   */
  setPolicy(
    tenantId: string,
    patch: PolicyPatch,
    actor: string,
    source?: 'api' | 'reconciler',
  ): Promise<Tenant>
  /** Replaces the parts that are named; an `agents` map is replaced whole. Throws `not_found`. */
  setCaps(
    tenantId: string,
    caps: Partial<TenantCaps>,
    actor: string,
    source?: 'api' | 'reconciler',
  ): Promise<Tenant>
  /** The newest events first, at most 1,000. */
  events(tenantId: string): Promise<TenantPolicyEvent[]>
}

const MAX_LIST = 1000
const patchSchema = tenantPolicySchema.omit({ tenant_id: true }).partial()
const capsPatchSchema = tenantCapsSchema.partial()

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
    by: { actor: string; source: 'api' | 'reconciler' },
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
        const policy = {
          ...defaultPolicy(tenantId),
          ...defined(parse(patchSchema, input.policy ?? {}, 'policy')),
        }
        const caps = { ...defaultCaps(), ...defined(parse(capsPatchSchema, input.caps ?? {}, 'caps')) }
        if (policy.sandbox_enabled && policy.compliance_tier !== 'standard') throw offStandard(policy)
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
      const wanted = defined(parse(patchSchema, patch, 'policy'))
      return await change(tenantId, { actor, source }, (now) => ({
        ...now,
        policy: decidePolicyChange(now.policy, wanted),
      }))
    },
    setCaps: async (tenantId, caps, actor, source = 'api') => {
      const wanted = defined(parse(capsPatchSchema, caps, 'caps'))
      return await change(tenantId, { actor, source }, (now) => ({
        ...now,
        caps: { ...now.caps, ...wanted },
      }))
    },
    events: (tenantId) =>
      changing(() =>
        db
          .selectFrom('tenant_policy_events')
          .selectAll()
          .where('tenant_id', '=', tenantId)
          .orderBy('id', 'desc')
          .limit(MAX_LIST)
          .execute(),
      ),
  }
}

/** The policy after a patch; throws `conflict` for a sandbox that is switched on off-standard. */
export function decidePolicyChange(now: TenantPolicy, patch: PolicyPatch): TenantPolicy {
  const next = { ...now, ...patch }
  if (next.compliance_tier === 'standard') return next
  if (patch.sandbox_enabled === true) throw offStandard(next)
  return { ...next, sandbox_enabled: false }
}

const offStandard = (policy: TenantPolicy): CofferdamError =>
  new CofferdamError(
    'conflict',
    `Tenant ${policy.tenant_id} is on tier ${policy.compliance_tier}: sandboxes run on the standard tier only.`,
  )

async function nameActor(
  tx: Transaction<Database>,
  by: { actor: string; source: 'api' | 'reconciler' },
): Promise<void> {
  const actor = by.actor.slice(0, 200) || 'unknown'
  await sql`select set_config('app.actor', ${actor}, true), set_config('app.source', ${by.source}, true)`.execute(
    tx,
  )
}

function toTenant(row: TenantRow): Tenant {
  const { tenant_daily, agent_hourly, agents, concurrency, max_queued, weight, rate_per_second, burst } = row
  const { tenant_id, sandbox_enabled, compliance_tier, min_isolation, environments, retention_days, redact } =
    row
  return {
    policy: tenantPolicySchema.parse({
      tenant_id,
      sandbox_enabled,
      compliance_tier,
      min_isolation,
      environments,
      retention_days,
      redact,
    }),
    caps: tenantCapsSchema.parse({
      tenant_daily,
      agent_hourly,
      agents,
      concurrency,
      max_queued,
      weight,
      rate_per_second,
      burst,
    }),
  }
}

function toRow({ policy, caps }: Tenant) {
  const { tenant_id: _id, ...columns } = policy
  return { ...columns, ...caps, agents: JSON.stringify(caps.agents) }
}

/** Without the keys that are there but undefined: those name nothing. */
function defined<T extends object>(patch: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
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
