/**
 * Polyclaw's sandbox (seed 004): one configuration for the fleet, and the work of making or removing its pool at Azure, which
 * one process at a time may do. The database writes an event of each change (0011); here stands who did it.
 *
 *   no work ──claim──► work, leased ──renew──► … ──finish──► no work
 *                        └── the lease ran out: whoever claims next goes on with the same plan
 */
import { randomUUID } from 'node:crypto'
import { CofferdamError } from '@cofferdam/contract'
import { sql, type Kysely, type Selectable, type Transaction } from 'kysely'
import { translating } from './store-errors.ts'
import type { Database, SandboxConfigTable } from './tables.ts'
import { nameActor } from './tenants.ts'

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
  /** As it was claimed. */
  plan: unknown
}

export interface SandboxConfig {
  settings: SandboxSettings
  /** Rises with each change of the settings. */
  version: number
  /** Value of the tag `fleet-owner`. */
  fleetOwner: string
  /** What is being done, or was left undone; `held`: somebody is at it. */
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

/** Every method throws `store_unavailable`. */
export interface SandboxConfigs {
  get(): Promise<SandboxConfig>
  /** Throws `conflict` when the version is not `expectedVersion` (null: whatever it is), and what `decide` throws. */
  change(
    actor: string,
    expectedVersion: number | null,
    decide: (now: SandboxSettings) => SandboxSettings,
  ): Promise<SandboxConfig>
  /** The right to do what `decide` says, and null when it says null. Throws `conflict` while another holds it. */
  claim(
    actor: string,
    leaseMs: number,
    decide: (now: SandboxConfig) => SandboxWork | null,
  ): Promise<(SandboxWork & { lease: string }) | null>
  /** Throws `fenced` when the lease is another's by now. */
  renew(lease: string, step: string, leaseMs: number): Promise<void>
  /** Ends the work, with other settings where they are named. Throws `fenced`. */
  finish(lease: string, actor: string, settings: Partial<SandboxSettings>): Promise<void>
  /** At most 100, the oldest first. */
  orphans(): Promise<SandboxOrphan[]>
  /** Again for the same resource: the reason is the new one. */
  addOrphan(resourceId: string, reason: string): Promise<void>
  resolveOrphan(resourceId: string): Promise<void>
  /** The newest first, at most `limit`, older than the event `before`. */
  events(options: { limit: number; before?: number }): Promise<SandboxConfigEvent[]>
}

const SETTINGS = [
  'enabled',
  'sync_data',
  'session_pool_endpoint',
  'whitelist',
  'resource_group',
  'location',
  'pool_name',
  'pool_id',
] as const
const MAX_ORPHANS = 100

/** `db` is the pool of the role that sees the whole fleet. */
export function createSandboxConfigs(db: Kysely<Database>): SandboxConfigs {
  const changing = <T>(work: () => Promise<T>): Promise<T> => translating('the sandbox configuration', work)
  const asActor = <T>(actor: string, work: (tx: Transaction<Database>) => Promise<T>): Promise<T> =>
    changing(() =>
      db.transaction().execute(async (tx) => {
        await nameActor(tx, { actor, source: 'api' })
        return await work(tx)
      }),
    )
  const locked = async (tx: Transaction<Database>): Promise<SandboxConfig> =>
    toConfig(
      await tx.selectFrom('sandbox_config').selectAll().select(isHeld).forUpdate().executeTakeFirstOrThrow(),
    )

  return {
    get: () =>
      changing(async () =>
        toConfig(await db.selectFrom('sandbox_config').selectAll().select(isHeld).executeTakeFirstOrThrow()),
      ),
    change: (actor, expectedVersion, decide) =>
      asActor(actor, async (tx) => {
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
      asActor(actor, async (tx) => {
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
      changing(async () => {
        const { numUpdatedRows } = await db
          .updateTable('sandbox_config')
          .set({ step, lease_until: inMs(leaseMs) })
          .where('lease', '=', lease)
          .executeTakeFirstOrThrow()
        if (numUpdatedRows === 0n)
          throw new CofferdamError('fenced', 'Another process goes on with this work.')
      }),
    finish: (lease, actor, settings) =>
      asActor(actor, async (tx) => {
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
      changing(() =>
        db
          .selectFrom('sandbox_orphans')
          .select(['resource_id', 'reason', 'created_at'])
          .where('resolved_at', 'is', null)
          .orderBy('id')
          .limit(MAX_ORPHANS)
          .execute(),
      ),
    addOrphan: (resourceId, reason) =>
      changing(async () => {
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
      changing(async () => {
        await db
          .updateTable('sandbox_orphans')
          .set({ resolved_at: new Date() })
          .where('resource_id', '=', resourceId)
          .where('resolved_at', 'is', null)
          .execute()
      }),
    events: ({ limit, before }) =>
      changing(() => {
        const all = db.selectFrom('sandbox_config_events').selectAll().orderBy('id', 'desc').limit(limit)
        return (before === undefined ? all : all.where('id', '<', before)).execute()
      }),
  }
}

/** The database's clock is the one that all processes share. */
const isHeld = sql<boolean>`coalesce(lease_until > now(), false)`.as('held')
const inMs = (ms: number) => sql<string>`now() + ${`${ms} milliseconds`}::interval`

function toConfig(row: Selectable<SandboxConfigTable> & { held: boolean }): SandboxConfig {
  return {
    settings: Object.fromEntries(SETTINGS.map((name) => [name, row[name]])) as unknown as SandboxSettings,
    version: row.version,
    fleetOwner: row.fleet_owner,
    work: row.work === null ? null : { kind: row.work, plan: row.plan, step: row.step, held: row.held },
  }
}
