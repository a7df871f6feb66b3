/** Reads `results`: the results of ended executions. */
import {
  artifactSchema,
  executionIdSchema,
  parseOfAnyRelease,
  resultSchema,
  uuidToExecutionId,
  type Artifact,
  type ExecutionResult,
  type ExecutionState,
} from '@cofferdam/contract'
import { sql, type Kysely, type Transaction } from 'kysely'
import type { Page } from './cursor.ts'
import type { InvocationFilter } from './invocation-filter.ts'
import { invocationPage } from './invocation-pages.ts'
import type { OutputKeys } from './output-keys.ts'
import { unsealResult } from './sealed-result.ts'
import { markCut } from './visible-text.ts'
import type { Database, ResultRow } from './tables.ts'

export interface StoredResult {
  attempt: number
  /** Where text was moved to the blob store, this has only its head. */
  result: ExecutionResult
  artifactRefs: (Artifact & { ref: string })[]
  moved: { stdout: string | null; stderr: string | null }
  /** The request in the blob store. Null when it was not kept. */
  requestRef: string | null
}

/** The results of one execution's attempts, in order. */
export async function resultsOf(
  db: Kysely<Database> | Transaction<Database>,
  executionUuid: string,
  expiryDays: readonly string[],
  keys: OutputKeys,
): Promise<StoredResult[]> {
  if (expiryDays.length === 0) return []
  const rows = await db
    .selectFrom('results')
    .selectAll()
    .where('expires_on', 'in', [...expiryDays])
    .where('execution_id', '=', executionUuid)
    .orderBy('attempt')
    .execute()
  return rows.map((row) => toStoredResult(row, keys))
}

/** A page of ended executions with their last attempt, newest first. Text beyond 16 KiB is cut and marked. */
export async function listResults(
  db: Kysely<Database> | Transaction<Database>,
  filter: InvocationFilter,
  keys: OutputKeys,
): Promise<Page<ExecutionState>> {
  const { rows, next_cursor } = await invocationPage(db, filter, {
    also: sql`attempt = (
      select max(a.attempt) from attempts a where a.execution_id = sandbox_invocations.execution_id
    )`,
  })
  const results = await resultsByKey(db, rows, keys)
  const shown = rows.map((row): ExecutionState => {
    const startedMs = Date.parse(row.started_at)
    return {
      execution_id: uuidToExecutionId(row.execution_id),
      tenant_id: row.tenant_id,
      agent_id: row.agent_id,
      ...(row.program_kind === null ? {} : { program_kind: row.program_kind }),
      status: 'ended',
      ...(row.rerun_of === null ? {} : { rerun_of: executionIdSchema.parse(row.rerun_of) }),
      attempt: row.attempt,
      enqueued_at: new Date(startedMs - row.queue_ms).toISOString(),
      started_at: row.started_at,
      position: null,
      eta_ms: null,
      result: results.get(row.execution_id) ?? null,
    }
  })
  return { rows: shown, next_cursor }
}

async function resultsByKey(
  db: Kysely<Database> | Transaction<Database>,
  wantedRows: readonly { execution_id: string; attempt: number; expires_on: string }[],
  keys: OutputKeys,
): Promise<Map<string, ExecutionResult>> {
  if (wantedRows.length === 0) return new Map()
  const wanted = new Map(wantedRows.map((row) => [row.execution_id, row.attempt]))
  const rows = await db
    .selectFrom('results')
    .selectAll()
    .where('expires_on', 'in', [...new Set(wantedRows.map((row) => row.expires_on))])
    .where(sql<boolean>`execution_id = any(${[...wanted.keys()]}::uuid[])`)
    .execute()
  return new Map(
    rows
      .filter((row) => wanted.get(row.execution_id) === row.attempt)
      .map((row) => {
        const { result, moved } = listedResult(row, keys)
        const cut = {
          ...(moved.stdout === null ? {} : markCut('stdout')),
          ...(moved.stderr === null ? {} : markCut('stderr')),
        }
        return [row.execution_id, { ...result, ...cut }]
      }),
  )
}

/** For lists: a row that cannot be decrypted is shown without its text, so that it does not fail the page. */
function listedResult(row: ResultRow, keys: OutputKeys): Pick<StoredResult, 'result' | 'moved'> {
  try {
    return toStoredResult(row, keys)
  } catch (error) {
    if (row.sealed === null) throw error
    const result = parseOfAnyRelease(resultSchema, row.result)
    return {
      result: { ...result, ...markCut('stdout'), ...markCut('stderr') },
      moved: { stdout: null, stderr: null },
    }
  }
}

function toStoredResult(row: ResultRow, keys: OutputKeys): StoredResult {
  return {
    attempt: row.attempt,
    result: unsealResult(parseOfAnyRelease(resultSchema, row.result), row.tenant_id, row.sealed, keys),
    artifactRefs: artifactRefs(row.artifacts),
    moved: { stdout: row.stdout_spill_ref, stderr: row.stderr_spill_ref },
    requestRef: row.request_ref,
  }
}

const artifactRefSchema = artifactSchema.extend({ ref: artifactSchema.shape.path }).loose()

/** The artifacts of a row with their references. Leaves out what has another shape. */
export const artifactRefs = (value: unknown): (Artifact & { ref: string })[] =>
  Array.isArray(value) ? value.filter((one) => artifactRefSchema.safeParse(one).success) : []
