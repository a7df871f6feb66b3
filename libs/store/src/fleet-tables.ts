/**
 * Access to tables whose row types and queries belong to another package. The migrations here still create
 * the tables. Queries run under the role that sees every tenant.
 */
import type { Kysely, Transaction } from 'kysely'
import { nameActor } from './author.ts'
import { translating } from './store-errors.ts'
import type { Database } from './tables.ts'

/** Both methods throw `store_unavailable`, and rethrow every `CofferdamError` of `work`. */
export interface FleetTables<Schema> {
  query<T>(work: (db: Kysely<Schema>) => Promise<T>): Promise<T>
  /** Runs `work` in one transaction. The events that the database writes name `actor` as their author. */
  change<T>(actor: string, work: (tx: Transaction<Schema>) => Promise<T>): Promise<T>
}

/** `what` names the data in messages, such as "the sandbox configuration". */
export function fleetTables<Schema>(db: Kysely<Database>, what: string): FleetTables<Schema> {
  const tables = db as unknown as Kysely<Schema>
  return {
    query: (work) => translating(what, () => work(tables)),
    change: (actor, work) =>
      translating(what, () =>
        tables.transaction().execute(async (tx) => {
          await nameActor(tx, { actor, source: 'api' })
          return await work(tx)
        }),
      ),
  }
}
