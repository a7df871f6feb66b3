/** Converts routines and their runs to and from rows. */
import {
  uuidToExecutionId,
  type ConcurrencyRule,
  type RoutineId,
  type RoutineInput,
  type RoutinePatch,
  type RoutineRun,
  type Schedule,
} from '@cofferdam/contract'
import type { Insertable, Selectable } from 'kysely'
import { defined } from './defined.ts'
import type { RoutineRunsTable, RoutinesTable } from './tables.ts'

export interface StoredRoutine {
  routine_id: RoutineId
  tenant_id: string
  agent_id: string
  template_id: string | null
  name: string
  /** As it was written. It is validated again when it runs. */
  request: Record<string, unknown>
  schedule: Schedule | null
  enabled: boolean
  concurrency: ConcurrencyRule
  callback_url: string | null
  created_at: string
  updated_at: string
}

type RoutineColumns = Omit<
  Insertable<RoutinesTable>,
  'routine_id' | 'tenant_id' | 'created_at' | 'updated_at'
>

/** The columns of a new routine, or those that a patch changes. */
export function toRow(input: RoutineInput): RoutineColumns
export function toRow(input: RoutinePatch): Partial<RoutineColumns>
export function toRow(input: RoutinePatch): Partial<RoutineColumns> {
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

export const toRoutine = (row: Selectable<RoutinesTable>): StoredRoutine => ({
  ...row,
  routine_id: row.routine_id as RoutineId,
})

export const toRun = (row: Selectable<RoutineRunsTable>): RoutineRun => ({
  scheduled_at: row.scheduled_at,
  fired_at: row.fired_at,
  outcome: row.outcome,
  reason: row.reason,
  execution_id: row.execution_id === null ? null : uuidToExecutionId(row.execution_id),
})
