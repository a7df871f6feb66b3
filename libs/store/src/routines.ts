/** Routines and what came of each time that they were due. The database writes the events (0008-routines.sql). */
import {
  CofferdamError,
  idToUuid,
  newRoutineId,
  parse,
  routineInputSchema,
  routinePatchSchema,
  uuidToExecutionId,
  type ConcurrencyRule,
  type ExecutionId,
  type RoutineId,
  type RoutineInput,
  type RoutinePatch,
  type RoutineRun,
  type Schedule,
} from '@cofferdam/contract'
import { sql, type Kysely, type Selectable, type Transaction } from 'kysely'
import { asTenant } from './connect.ts'
import { sqlState, translating } from './store-errors.ts'
import type { Database, RoutineEventsTable, RoutineRunsTable, RoutinesTable } from './tables.ts'

/** A routine as it is stored. */
export interface StoredRoutine {
  routine_id: RoutineId
  tenant_id: string
  agent_id: string
  template_id: string | null
  name: string
  /** As it was written; whoever runs it checks it again. */
  request: Record<string, unknown>
  schedule: Schedule | null
  enabled: boolean
  concurrency: ConcurrencyRule
  callback_url: string | null
  created_at: string
  updated_at: string
}

/** One change of a routine, as the database wrote it. */
export type RoutineEvent = Selectable<RoutineEventsTable>

/** What decides about one trigger of a routine, while no other trigger of it is decided about. */
export interface RoutineTurn {
  routine: StoredRoutine
  /** Executions of its newest runs, the newest first. */
  recent: ExecutionId[]
}

/** Every method throws `store_unavailable`. `tenantId` null means any tenant, for admins and workers. */
export interface Routines {
  /** Throws `not_found` for an unknown tenant, `conflict` when the tenant has 1,000 already. */
  create(input: RoutineInput, actor: string): Promise<StoredRoutine>
  get(tenantId: string | null, id: RoutineId): Promise<StoredRoutine | null>
  /** The newest first, at most `limit`, older than `after`. */
  list(tenantId: string | null, options: { limit: number; after?: RoutineId }): Promise<StoredRoutine[]>
  /** Replaces the parts that are named. Null when there is none; throws `invalid_request` for another tenant's request. */
  change(
    tenantId: string | null,
    id: RoutineId,
    patch: RoutinePatch,
    actor: string,
  ): Promise<StoredRoutine | null>
  /** False when there was none. Its runs go with it; audit rows stay. */
  remove(tenantId: string | null, id: RoutineId, actor: string): Promise<boolean>
  /** The newest runs first, at most `limit`. */
  runs(tenantId: string | null, id: RoutineId, limit: number): Promise<RoutineRun[]>
  /** Who changed what of it, the newest first, at most `limit`; also of one that is deleted. */
  events(tenantId: string | null, id: RoutineId, limit: number): Promise<RoutineEvent[]>
  /** Of each routine its newest run. */
  lastRuns(tenantId: string | null, ids: readonly RoutineId[]): Promise<Map<RoutineId, RoutineRun>>
  /** Enabled routines with a schedule, by id, at most 1,000 behind `after`. */
  scheduled(after: RoutineId | null): Promise<StoredRoutine[]>
  /**
   * Decides about one trigger of a routine, one trigger at a time, and keeps what `decide` says under `triggerKey`; a
   * trigger that is known already is answered by what it did before. Null when there is no such routine.
   */
  inTurn(
    id: RoutineId,
    trigger: { key: string; scheduledAtMs: number | null },
    decide: (turn: RoutineTurn) => Promise<Pick<RoutineRun, 'outcome' | 'reason' | 'execution_id'>>,
  ): Promise<RoutineRun | null>
}

const MAX_ROUTINES = 1000
/** Runs kept of each routine: more than anybody scrolls through; the audit rows outlive them. */
const RUNS_KEPT = 200
/** Runs that may still be alive: more than a tenant runs at once by default. */
const RECENT = 20
const PAGE = 1000

export function createRoutines(app: Kysely<Database>, fleet: Kysely<Database>): Routines {
  type Reader = Kysely<Database> | Transaction<Database>
  const reading = <T>(tenantId: string | null, work: (db: Reader) => Promise<T>): Promise<T> =>
    translating('a routine', () => (tenantId === null ? work(fleet) : asTenant(app, tenantId, work)))
  const writing = <T>(
    tenantId: string | null,
    actor: string,
    work: (tx: Transaction<Database>) => Promise<T>,
  ): Promise<T> =>
    translating('a routine', () => {
      const named = async (tx: Transaction<Database>): Promise<T> => {
        const who = actor.slice(0, 200) || 'unknown'
        await sql`select set_config('app.actor', ${who}, true), set_config('app.source', 'api', true)`.execute(
          tx,
        )
        return await work(tx)
      }
      return tenantId === null ? fleet.transaction().execute(named) : asTenant(app, tenantId, named)
    })
  const one = (db: Reader, id: RoutineId) =>
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
    runs: (tenantId, id, limit) =>
      reading(tenantId, async (db) => {
        const rows = await newestRuns(db, id).limit(limit).execute()
        return rows.map(toRun)
      }),
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
    lastRuns: (tenantId, ids) =>
      reading(tenantId, async (db) => {
        if (ids.length === 0) return new Map()
        const rows = await db
          .selectFrom('routine_runs')
          .selectAll()
          .distinctOn('routine_id')
          .where('routine_id', 'in', [...ids])
          .orderBy('routine_id')
          .orderBy('run_id', 'desc')
          .execute()
        return new Map(rows.map((row) => [row.routine_id as RoutineId, toRun(row)]))
      }),
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
          if (row === undefined) return null
          const rows = await newestRuns(tx, id).limit(RUNS_KEPT).execute()
          const before = rows.find((run) => run.trigger_key === trigger.key)
          const recent = rows.flatMap(({ execution_id: uuid }) =>
            uuid === null ? [] : [uuidToExecutionId(uuid)],
          )
          if (before !== undefined) return toRun(before)
          const decided = await decide({ routine: toRoutine(row), recent: recent.slice(0, RECENT) })
          const inserted = await tx
            .insertInto('routine_runs')
            .values({
              routine_id: id,
              tenant_id: row.tenant_id,
              trigger_key: trigger.key,
              scheduled_at: trigger.scheduledAtMs === null ? null : new Date(trigger.scheduledAtMs),
              outcome: decided.outcome,
              reason: decided.reason?.slice(0, 500) ?? null,
              execution_id: decided.execution_id === null ? null : idToUuid(decided.execution_id),
            })
            .returningAll()
            .executeTakeFirstOrThrow()
          const oldest = rows[RUNS_KEPT - 2]
          if (oldest !== undefined)
            await tx
              .deleteFrom('routine_runs')
              .where('routine_id', '=', id)
              .where('run_id', '<', oldest.run_id)
              .execute()
          return toRun(inserted)
        }),
      ),
  }
}

const newestRuns = (db: Kysely<Database> | Transaction<Database>, id: RoutineId) =>
  db.selectFrom('routine_runs').selectAll().where('routine_id', '=', id).orderBy('run_id', 'desc')

function toRow(input: RoutineInput): RoutineColumns
function toRow(input: RoutinePatch): Partial<RoutineColumns>
function toRow(input: RoutinePatch): Partial<RoutineColumns> {
  const { request, schedule, ...plain } = input
  return {
    ...defined(plain),
    ...(schedule === undefined ? {} : { schedule: schedule === null ? null : JSON.stringify(schedule) }),
    ...(request === undefined
      ? {}
      : {
          request: JSON.stringify(request),
          agent_id: request.agent_id,
          template_id: request.template_id ?? null,
        }),
  }
}

interface RoutineColumns {
  name: string
  request: string
  agent_id: string
  template_id: string | null
  schedule: string | null
  enabled: boolean
  concurrency: ConcurrencyRule
  callback_url: string | null
}

/** Without the keys that are there but undefined: those name nothing. */
function defined<T extends object>(patch: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}

const toRoutine = (row: Selectable<RoutinesTable>): StoredRoutine => ({
  ...row,
  routine_id: row.routine_id as RoutineId,
})

const toRun = (row: Selectable<RoutineRunsTable>): RoutineRun => ({
  scheduled_at: row.scheduled_at,
  fired_at: row.fired_at,
  outcome: row.outcome,
  reason: row.reason,
  execution_id: row.execution_id === null ? null : uuidToExecutionId(row.execution_id),
})
