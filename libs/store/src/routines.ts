/** Routines and their runs. The database writes the events. */
import {
  CofferdamError,
  newRoutineId,
  parse,
  routineInputSchema,
  routinePatchSchema,
  type RoutineId,
  type RoutineInput,
  type RoutinePatch,
  type RoutineRun,
} from '@cofferdam/contract'
import type { Kysely, Selectable, Transaction } from 'kysely'
import { nameActor, type Author } from './author.ts'
import { asTenant } from './connect.ts'
import { toRoutine, toRow, type StoredRoutine } from './routine-rows.ts'
import { lastRuns, newestRuns, runOnce, type DecideRun, type RoutineTrigger } from './routine-runs.ts'
import { sqlState, translating } from './store-errors.ts'
import type { Database, RoutineEventsTable } from './tables.ts'

export type RoutineEvent = Selectable<RoutineEventsTable>

/** Every method throws `store_unavailable`. `tenantId` null means any tenant, for admins and workers. */
export interface Routines {
  /** Throws `not_found` for an unknown tenant, and `conflict` when the tenant already has 1,000. */
  create(input: RoutineInput, actor: Author): Promise<StoredRoutine>
  get(tenantId: string | null, id: RoutineId): Promise<StoredRoutine | null>
  /** Newest first, at most `limit`, all older than `after`. */
  list(tenantId: string | null, options: { limit: number; after?: RoutineId }): Promise<StoredRoutine[]>
  /** Replaces the given fields. Null when there is none. Throws `invalid_request` if the tenant differs. */
  change(
    tenantId: string | null,
    id: RoutineId,
    patch: RoutinePatch,
    actor: Author,
  ): Promise<StoredRoutine | null>
  /** Deletes the routine and its runs, but no audit rows. False when there was none. */
  remove(tenantId: string | null, id: RoutineId, actor: Author): Promise<boolean>
  /** Newest first, at most `limit`. */
  runs(tenantId: string | null, id: RoutineId, limit: number): Promise<RoutineRun[]>
  /** Changes of the routine, even a deleted one, newest first, at most `limit`. */
  events(tenantId: string | null, id: RoutineId, limit: number): Promise<RoutineEvent[]>
  /** The newest run of each routine. */
  lastRuns(tenantId: string | null, ids: readonly RoutineId[]): Promise<Map<RoutineId, RoutineRun>>
  /** Enabled routines with a schedule, by id, at most 1,000 after `after`. */
  scheduled(after: RoutineId | null): Promise<StoredRoutine[]>
  /**
   * Decides about one trigger of a routine, one at a time, and stores the outcome under the trigger's key. A
   * known trigger returns its stored run. Null when the routine does not exist.
   */
  inTurn(id: RoutineId, trigger: RoutineTrigger, decide: DecideRun): Promise<RoutineRun | null>
}

const MAX_ROUTINES = 1000
const PAGE = 1000

/** `app` sees the rows of one tenant at a time (row-level security), `fleet` all rows. */
export function createRoutines(app: Kysely<Database>, fleet: Kysely<Database>): Routines {
  const reading = <T>(tenantId: string | null, work: (db: Kysely<Database>) => Promise<T>): Promise<T> =>
    translating('a routine', () => (tenantId === null ? work(fleet) : asTenant(app, tenantId, work)))
  const writing = <T>(
    tenantId: string | null,
    actor: Author,
    work: (tx: Transaction<Database>) => Promise<T>,
  ): Promise<T> =>
    translating('a routine', () => {
      const named = async (tx: Transaction<Database>): Promise<T> => {
        await nameActor(tx, { actor, source: 'api' })
        return await work(tx)
      }
      return tenantId === null ? fleet.transaction().execute(named) : asTenant(app, tenantId, named)
    })
  const one = (db: Kysely<Database>, id: RoutineId) =>
    db.selectFrom('routines').selectAll().where('routine_id', '=', id)

  return {
    async create(given, actor) {
      const input = parse(routineInputSchema, given, 'routine')
      const { tenant_id: tenantId } = input.request
      return await writing(tenantId, actor, async (tx) => {
        const { count } = await tx
          .selectFrom('routines')
          .select((eb) => eb.fn.countAll<number>().as('count'))
          .where('tenant_id', '=', tenantId)
          .executeTakeFirstOrThrow()
        if (count >= MAX_ROUTINES)
          throw new CofferdamError('conflict', `The tenant has ${MAX_ROUTINES} routines already.`)
        try {
          const row = await tx
            .insertInto('routines')
            .values({ routine_id: newRoutineId(), tenant_id: tenantId, ...toRow(input) })
            .returningAll()
            .executeTakeFirstOrThrow()
          return toRoutine(row)
        } catch (error) {
          if (sqlState(error) === '23503')
            throw new CofferdamError('not_found', `There is no tenant ${tenantId}.`)
          throw error
        }
      })
    },
    get: (tenantId, id) =>
      reading(tenantId, async (db) => {
        const row = await one(db, id).executeTakeFirst()
        return row === undefined ? null : toRoutine(row)
      }),
    list: (tenantId, { limit, after }) =>
      reading(tenantId, async (db) => {
        const all = db.selectFrom('routines').selectAll().orderBy('routine_id', 'desc').limit(limit)
        const rows = await (after === undefined ? all : all.where('routine_id', '<', after)).execute()
        return rows.map(toRoutine)
      }),
    async change(tenantId, id, given, actor) {
      const patch = parse(routinePatchSchema, given, 'routine')
      return await writing(tenantId, actor, async (tx) => {
        const row = await one(tx, id).forUpdate().executeTakeFirst()
        if (row === undefined) return null
        if (patch.request !== undefined && patch.request.tenant_id !== row.tenant_id)
          throw new CofferdamError('invalid_request', 'request.tenant_id: a routine stays with its tenant.')
        const changed = { ...toRow(patch), updated_at: new Date() }
        const after = await tx
          .updateTable('routines')
          .set(changed)
          .where('routine_id', '=', id)
          .returningAll()
          .executeTakeFirstOrThrow()
        return toRoutine(after)
      })
    },
    remove: (tenantId, id, actor) =>
      writing(tenantId, actor, async (tx) => {
        const { numDeletedRows } = await tx
          .deleteFrom('routines')
          .where('routine_id', '=', id)
          .executeTakeFirstOrThrow()
        return numDeletedRows > 0n
      }),
    runs: (tenantId, id, limit) => reading(tenantId, (db) => newestRuns(db, id, limit)),
    events: (tenantId, id, limit) =>
      reading(tenantId, (db) =>
        db
          .selectFrom('routine_events')
          .selectAll()
          .where('routine_id', '=', id)
          .orderBy('id', 'desc')
          .limit(limit)
          .execute(),
      ),
    lastRuns: (tenantId, ids) => reading(tenantId, (db) => lastRuns(db, ids)),
    scheduled: (after) =>
      reading(null, async (db) => {
        const all = db
          .selectFrom('routines')
          .selectAll()
          .where('enabled', '=', true)
          .where('schedule', 'is not', null)
          .orderBy('routine_id')
          .limit(PAGE)
        const rows = await (after === null ? all : all.where('routine_id', '>', after)).execute()
        return rows.map(toRoutine)
      }),
    inTurn: (id, trigger, decide) =>
      translating('a run of a routine', () =>
        fleet.transaction().execute(async (tx) => {
          const row = await one(tx, id).forUpdate().executeTakeFirst()
          return row === undefined ? null : await runOnce(tx, toRoutine(row), trigger, decide)
        }),
      ),
  }
}
