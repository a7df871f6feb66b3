/**
 * The settings record of a fleet. It also holds the plan while one process makes or removes the session pool.
 * The store's migration 0011 creates the table and its events.
 *
 *   no work ──claim──► work, leased ──renew──► … ──finish──► no work
 *                        └── the lease expired: the next claim continues with the same plan
 */
import { randomUUID } from 'node:crypto'
import { CofferdamError } from '@cofferdam/contract'
import type { Store } from '@cofferdam/store'
import { sql, type ColumnType, type Generated, type Selectable, type Transaction } from 'kysely'

export interface SandboxSettings {
  enabled: boolean
  sync_data: boolean
  session_pool_endpoint: string
  whitelist: string[]
  resource_group: string
  location: string
  pool_name: string
  pool_id: string
}

export interface SandboxWork {
  kind: 'making' | 'removing'
  /** Names and location of the pool that is being made or removed, fixed when the work began (a PoolPlan). */
  plan: unknown
}

export interface SandboxConfig {
  settings: SandboxSettings
  /** Increases with each change of the settings. */
  version: number
  /** Value of the tag `fleet-owner` on our resources at Azure. */
  fleetOwner: string
  /** Work in progress, or unfinished. `held`: a process has the lease. */
  work: (SandboxWork & { step: string | null; held: boolean }) | null
}

export interface SandboxOrphan {
  resource_id: string
  reason: string
  created_at: string
}

export interface SandboxConfigEvent {
  id: number
  actor: string
  event_type: 'changed' | 'making' | 'made' | 'removing' | 'removed' | 'failed'
  before: unknown
  after: unknown
  source: 'api' | 'reconciler' | 'sql'
  created_at: string
}

/** Every method throws `store_unavailable` when Postgres does not answer. */
export interface SandboxConfigs {
  get(): Promise<SandboxConfig>
  /** Throws `conflict` for a version other than `expectedVersion` (null: any), and what `decide` throws. */
  change(
    actor: string,
    expectedVersion: number | null,
    decide: (now: SandboxSettings) => SandboxSettings,
  ): Promise<SandboxConfig>
  /**
   * Takes the lease for the work that `decide` returns. Null when it returns null. Throws `conflict` while
   * another process has the lease.
   */
  claim(
    actor: string,
    leaseMs: number,
    decide: (now: SandboxConfig) => SandboxWork | null,
  ): Promise<(SandboxWork & { lease: string }) | null>
  /** Throws `fenced` when another process took the lease. */
  renew(lease: string, step: string, leaseMs: number): Promise<void>
  /** Ends the work and changes the given settings. Throws `fenced` when another process took the lease. */
  finish(lease: string, actor: string, settings: Partial<SandboxSettings>): Promise<void>
  /** Resources that may still exist, at most 100, the oldest first. */
  orphans(): Promise<SandboxOrphan[]>
  /** Lists a resource that may still exist. If it is listed already, replaces its reason. */
  addOrphan(resourceId: string, reason: string): Promise<void>
  resolveOrphan(resourceId: string): Promise<void>
  /** The newest events first, at most `limit`, all older than the event `before`. */
  events(options: { limit: number; before?: number }): Promise<SandboxConfigEvent[]>
}

const MAX_ORPHANS = 100

/** The database sets it when it inserts the row. It is read as ISO text. */
type Stamp = ColumnType<string, never, Date>

interface SettingsRow extends SandboxSettings {
  version: number
  fleet_owner: string
  work: SandboxWork['kind'] | null
  plan: ColumnType<unknown, never, string | null>
  step: string | null
  lease: string | null
  lease_until: ColumnType<string | null, never, string | null>
  updated_at: Stamp
}

interface OrphansTable {
  id: Generated<number>
  resource_id: string
  reason: string
  created_at: Stamp
  resolved_at: ColumnType<string | null, never, Date>
}

interface Tables {
  sandbox_config: SettingsRow
  sandbox_orphans: OrphansTable
  sandbox_config_events: SandboxConfigEvent
}

/** The settings of the fleet that `store` serves. */
export function createSandboxConfigs(store: Pick<Store, 'fleetTables'>): SandboxConfigs {
  const tables = store.fleetTables<Tables>('the sandbox configuration')
  const locked = async (tx: Transaction<Tables>): Promise<SandboxConfig> =>
    toConfig(
      await tx.selectFrom('sandbox_config').selectAll().select(isHeld).forUpdate().executeTakeFirstOrThrow(),
    )

  return {
    get: () =>
      tables.query(async (db) =>
        toConfig(await db.selectFrom('sandbox_config').selectAll().select(isHeld).executeTakeFirstOrThrow()),
      ),
    change: (actor, expectedVersion, decide) =>
      tables.change(actor, async (tx) => {
        const now = await locked(tx)
        if (expectedVersion !== null && expectedVersion !== now.version)
          throw new CofferdamError('conflict', `The configuration is at version ${now.version} by now.`, {
            details: { version: now.version },
          })
        const settings = decide(now.settings)
        if (JSON.stringify(settings) === JSON.stringify(now.settings)) return now
        const version = now.version + 1
        await tx
          .updateTable('sandbox_config')
          .set({ ...settings, version, updated_at: new Date() })
          .execute()
        return { ...now, settings, version }
      }),
    claim: (actor, leaseMs, decide) =>
      tables.change(actor, async (tx) => {
        const now = await locked(tx)
        if (now.work?.held === true)
          throw new CofferdamError(
            'conflict',
            'The pool is being made or removed by another request just now.',
          )
        const work = decide(now)
        if (work === null) return null
        const lease = randomUUID()
        await tx
          .updateTable('sandbox_config')
          .set({
            work: work.kind,
            plan: JSON.stringify(work.plan),
            step: null,
            lease,
            lease_until: inMs(leaseMs),
          })
          .execute()
        return { ...work, lease }
      }),
    renew: (lease, step, leaseMs) =>
      tables.query(async (db) => {
        const { numUpdatedRows } = await db
          .updateTable('sandbox_config')
          .set({ step, lease_until: inMs(leaseMs) })
          .where('lease', '=', lease)
          .executeTakeFirstOrThrow()
        if (numUpdatedRows === 0n)
          throw new CofferdamError('fenced', 'Another process goes on with this work.')
      }),
    finish: (lease, actor, settings) =>
      tables.change(actor, async (tx) => {
        const { numUpdatedRows } = await tx
          .updateTable('sandbox_config')
          .set((eb) => ({
            ...settings,
            ...(Object.keys(settings).length === 0 ? {} : { version: eb('version', '+', 1) }),
            work: null,
            plan: null,
            step: null,
            lease: null,
            lease_until: null,
            updated_at: new Date(),
          }))
          .where('lease', '=', lease)
          .executeTakeFirstOrThrow()
        if (numUpdatedRows === 0n)
          throw new CofferdamError('fenced', 'Another process goes on with this work.')
      }),
    orphans: () =>
      tables.query((db) =>
        db
          .selectFrom('sandbox_orphans')
          .select(['resource_id', 'reason', 'created_at'])
          .where('resolved_at', 'is', null)
          .orderBy('id')
          .limit(MAX_ORPHANS)
          .execute(),
      ),
    addOrphan: (resourceId, reason) =>
      tables.query(async (db) => {
        await db
          .insertInto('sandbox_orphans')
          .values({ resource_id: resourceId, reason: reason.slice(0, 1000) })
          .onConflict((oc) =>
            oc
              .column('resource_id')
              .where('resolved_at', 'is', null)
              .doUpdateSet({ reason: reason.slice(0, 1000) }),
          )
          .execute()
      }),
    resolveOrphan: (resourceId) =>
      tables.query(async (db) => {
        await db
          .updateTable('sandbox_orphans')
          .set({ resolved_at: new Date() })
          .where('resource_id', '=', resourceId)
          .where('resolved_at', 'is', null)
          .execute()
      }),
    events: ({ limit, before }) =>
      tables.query((db) => {
        const all = db.selectFrom('sandbox_config_events').selectAll().orderBy('id', 'desc').limit(limit)
        return (before === undefined ? all : all.where('id', '<', before)).execute()
      }),
  }
}

/** Uses the database's clock, which all processes share. */
const isHeld = sql<boolean>`coalesce(lease_until > now(), false)`.as('held')
const inMs = (ms: number) => sql<string>`now() + ${`${ms} milliseconds`}::interval`

function toConfig(row: Selectable<SettingsRow> & { held: boolean }): SandboxConfig {
  const { enabled, sync_data, session_pool_endpoint, whitelist } = row
  const { resource_group, location, pool_name, pool_id } = row
  return {
    settings: {
      enabled,
      sync_data,
      session_pool_endpoint,
      whitelist,
      resource_group,
      location,
      pool_name,
      pool_id,
    },
    version: row.version,
    fleetOwner: row.fleet_owner,
    work: row.work === null ? null : { kind: row.work, plan: row.plan, step: row.step, held: row.held },
  }
}
