/** Runs of routines, one per trigger key. The newest 200 of each routine are kept. */
import {
  idToUuid,
  uuidToExecutionId,
  type ExecutionId,
  type RoutineId,
  type RoutineRun,
} from '@cofferdam/contract'
import type { Kysely, Transaction } from 'kysely'
import { toRun, type StoredRoutine } from './routine-rows.ts'
import type { Database } from './tables.ts'

/** The argument of `DecideRun`, which is called for one trigger of a routine at a time. */
export interface RoutineTurn {
  routine: StoredRoutine
  /** Executions of the newest runs, newest first. */
  recent: ExecutionId[]
}

/** The cause of one run of a routine. */
export interface RoutineTrigger {
  /** Identifies the trigger: the scheduled time, or a word that the caller chose. */
  key: string
  /** Null for a run on demand, which a disabled routine allows too. */
  scheduledAtMs: number | null
}

export type DecideRun = (
  turn: RoutineTurn,
) => Promise<Pick<RoutineRun, 'outcome' | 'reason' | 'execution_id'>>

/** Runs kept per routine. Audit rows are kept longer. */
const RUNS_KEPT = 200
/** Newest runs that `DecideRun` checks for running executions. */
const RECENT = 20

/** Newest first, at most `limit`. */
export async function newestRuns(db: Kysely<Database>, id: RoutineId, limit: number): Promise<RoutineRun[]> {
  const rows = await newestRows(db, id, limit)
  return rows.map(toRun)
}

export async function lastRuns(
  db: Kysely<Database>,
  ids: readonly RoutineId[],
): Promise<Map<RoutineId, RoutineRun>> {
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
}

/**
 * Stores what `decide` returns for a trigger, or returns the stored run of a known trigger. `tx` has locked
 * the routine's row, so its triggers are decided one at a time.
 */
export async function runOnce(
  tx: Transaction<Database>,
  routine: StoredRoutine,
  trigger: RoutineTrigger,
  decide: DecideRun,
): Promise<RoutineRun> {
  const { routine_id, tenant_id } = routine
  const kept = await newestRows(tx, routine_id, RUNS_KEPT)
  const before = kept.find((run) => run.trigger_key === trigger.key)
  if (before !== undefined) return toRun(before)
  const executions = kept.flatMap(({ execution_id: uuid }) =>
    uuid === null ? [] : [uuidToExecutionId(uuid)],
  )
  const decided = await decide({ routine, recent: executions.slice(0, RECENT) })
  const run = await tx
    .insertInto('routine_runs')
    .values({
      routine_id,
      tenant_id,
      trigger_key: trigger.key,
      scheduled_at: trigger.scheduledAtMs === null ? null : new Date(trigger.scheduledAtMs),
      outcome: decided.outcome,
      reason: decided.reason?.slice(0, 500) ?? null,
      execution_id: decided.execution_id === null ? null : idToUuid(decided.execution_id),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  const oldest = kept[RUNS_KEPT - 2]
  if (oldest !== undefined)
    await tx
      .deleteFrom('routine_runs')
      .where('routine_id', '=', routine_id)
      .where('run_id', '<', oldest.run_id)
      .execute()
  return toRun(run)
}

const newestRows = (db: Kysely<Database>, id: RoutineId, limit: number) =>
  db
    .selectFrom('routine_runs')
    .selectAll()
    .where('routine_id', '=', id)
    .orderBy('run_id', 'desc')
    .limit(limit)
    .execute()
