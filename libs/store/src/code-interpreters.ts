/** Code interpreters of tenants at AgentCore. The database writes the events. */
import { CofferdamError, type Environment } from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import { nameActor } from './author.ts'
import { sqlState, translating } from './store-errors.ts'
import type { Database } from './tables.ts'

/** The interpreter that a tenant should have in one environment. */
export interface WantedInterpreter {
  tenant_id: string
  environment: Environment
  interpreter_id: string | null
  /** Rises whenever an ID is forgotten. */
  generation: number
  provisioned_at: string | null
  /** Whether the tenant may run code at all. */
  sandbox_enabled: boolean
}

/** Every method throws `store_unavailable`. `actor` is the author of the change in its event. */
export interface CodeInterpreters {
  /** Null when the tenant has none in this environment. */
  find(tenantId: string, environment: Environment): Promise<string | null>
  /** All rows of one tenant, or at most 1,000 rows after `after`, by tenant and environment. */
  list(options: {
    tenantId?: string
    after?: Pick<WantedInterpreter, 'tenant_id' | 'environment'>
  }): Promise<WantedInterpreter[]>
  /** Adds rows. Existing rows stay unchanged. Throws `not_found` for an unknown tenant. */
  request(tenantId: string, environments: readonly Environment[], actor: string): Promise<void>
  /**
   * Writes the ID of an interpreter into the row that it was created for. False when the row has changed
   * since it was read: it is gone, has another generation, or holds another ID. Nobody then uses the new
   * interpreter. Throws `conflict` when another row has the ID.
   */
  provisioned(
    row: Pick<WantedInterpreter, 'tenant_id' | 'environment' | 'generation'>,
    id: string,
    actor: string,
  ): Promise<boolean>
  /**
   * Clears the ID after the service lost the interpreter. False when the row holds another ID by now. With
   * null as `id`, the row must hold none.
   */
  forget(tenantId: string, environment: Environment, id: string | null, actor: string): Promise<boolean>
  remove(tenantId: string, actor: string): Promise<void>
  /** Whether any row has the ID. */
  isNamed(id: string): Promise<boolean>
  /** Runs `work` while no other process does. Null when another one holds the lock. */
  inTurn<T>(work: () => Promise<T>): Promise<T | null>
}

const PAGE = 1000
/** Any constant that differs from the other advisory locks of the database. */
const LOCK = 7020260013

export function createCodeInterpreters(fleet: Kysely<Database>): CodeInterpreters {
  const writing = <T>(actor: string, work: (tx: Transaction<Database>) => Promise<T>): Promise<T> =>
    translating('a code interpreter', () =>
      fleet.transaction().execute(async (tx) => {
        await nameActor(tx, { actor, source: 'reconciler' })
        return await work(tx)
      }),
    )

  return {
    find: (tenantId, environment) =>
      translating('a code interpreter', async () => {
        const row = await fleet
          .selectFrom('code_interpreters')
          .select('interpreter_id')
          .where('tenant_id', '=', tenantId)
          .where('environment', '=', environment)
          .executeTakeFirst()
        return row?.interpreter_id ?? null
      }),
    list: ({ tenantId, after }) =>
      translating('the code interpreters', async () => {
        let all = fleet
          .selectFrom('code_interpreters')
          .innerJoin('tenants', 'tenants.tenant_id', 'code_interpreters.tenant_id')
          .select([
            'code_interpreters.tenant_id',
            'environment',
            'interpreter_id',
            'generation',
            'provisioned_at',
            'sandbox_enabled',
          ])
          .orderBy('code_interpreters.tenant_id')
          .orderBy('environment')
          .limit(PAGE)
        if (tenantId !== undefined) all = all.where('code_interpreters.tenant_id', '=', tenantId)
        if (after !== undefined)
          all = all.where(
            sql<boolean>`(code_interpreters.tenant_id, environment)
              > (${after.tenant_id}, ${after.environment})`,
          )
        return await all.execute()
      }),
    request: (tenantId, environments, actor) =>
      writing(actor, async (tx) => {
        if (environments.length === 0) return
        try {
          await tx
            .insertInto('code_interpreters')
            .values(environments.map((environment) => ({ tenant_id: tenantId, environment })))
            .onConflict((oc) => oc.doNothing())
            .execute()
        } catch (error) {
          if (sqlState(error) === '23503')
            throw new CofferdamError('not_found', `There is no tenant ${tenantId.slice(0, 128)}.`)
          throw error
        }
      }),
    provisioned: (row, id, actor) =>
      writing(actor, async (tx) => {
        try {
          const done = await tx
            .updateTable('code_interpreters')
            .set({ interpreter_id: id, provisioned_at: sql<Date>`coalesce(provisioned_at, now())` })
            .where('tenant_id', '=', row.tenant_id)
            .where('environment', '=', row.environment)
            .where('generation', '=', row.generation)
            .where((eb) => eb.or([eb('interpreter_id', 'is', null), eb('interpreter_id', '=', id)]))
            .executeTakeFirst()
          return done.numUpdatedRows === 1n
        } catch (error) {
          if (sqlState(error) === '23505')
            throw new CofferdamError('conflict', `Another tenant's row names the interpreter ${id}.`)
          throw error
        }
      }),
    forget: (tenantId, environment, id, actor) =>
      writing(actor, async (tx) => {
        const done = await tx
          .updateTable('code_interpreters')
          .set((eb) => ({
            interpreter_id: null,
            provisioned_at: null,
            generation: eb('generation', '+', 1),
          }))
          .where('tenant_id', '=', tenantId)
          .where('environment', '=', environment)
          .where('interpreter_id', 'is not distinct from', id)
          .executeTakeFirst()
        return done.numUpdatedRows === 1n
      }),
    remove: (tenantId, actor) =>
      writing(actor, async (tx) => {
        await tx.deleteFrom('code_interpreters').where('tenant_id', '=', tenantId).execute()
      }),
    isNamed: (id) =>
      translating('a code interpreter', async () => {
        const row = await fleet
          .selectFrom('code_interpreters')
          .select('tenant_id')
          .where('interpreter_id', '=', id)
          .executeTakeFirst()
        return row !== undefined
      }),
    async inTurn<T>(work: () => Promise<T>) {
      return await fleet.connection().execute(async (db) => {
        const { rows } = await translating('the turn to provision', () =>
          sql<{ mine: boolean }>`select pg_try_advisory_lock(${LOCK}) as mine`.execute(db),
        )
        if (rows[0]?.mine !== true) return null
        try {
          return await work()
        } finally {
          // A broken connection has already released the lock.
          await sql`select pg_advisory_unlock(${LOCK})`.execute(db).catch(() => undefined)
        }
      })
    },
  }
}
