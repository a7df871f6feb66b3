/** Finds what was recorded of one execution, with the full text of its results. */
import {
  executionIdSchema,
  idToUuid,
  type Artifact,
  type AttemptRecord,
  type AuditRow,
  type BlobStore,
  type ExecutionResult,
} from '@cofferdam/contract'
import type { Kysely, Transaction } from 'kysely'
import { attemptsOf, invocationsOf } from './invocations.ts'
import type { OutputKeys } from './output-keys.ts'
import { resultsOf } from './results.ts'
import type { Database } from './tables.ts'
import { putTextBack } from './visible-text.ts'

type Reader = Kysely<Database> | Transaction<Database>

export interface StoredExecution {
  /** Result of the last attempt, with its full text. */
  result: ExecutionResult
  artifactRefs: (Artifact & { ref: string })[]
  /** The request of the last attempt in the blob store. Null when it was not kept. */
  requestRef: string | null
  /** Every attempt, first one first. */
  audit: AuditRow[]
}

/** Null when the attempt was not recorded, or has expired. */
export async function findAttempt(
  db: Reader,
  executionId: string,
  attempt: number,
  keys: OutputKeys,
  blobs: BlobStore,
): Promise<AttemptRecord | null> {
  const uuid = toUuid(executionId)
  const found = uuid === null ? undefined : (await attemptsOf(db, uuid)).find((a) => a.attempt === attempt)
  if (uuid === null || found === undefined) return null
  const audit = (await invocationsOf(db, uuid, [found.expiresOn])).find((a) => a.attempt === attempt)
  const stored = (await resultsOf(db, uuid, [found.expiresOn], keys)).find((r) => r.attempt === attempt)
  if (audit === undefined || stored === undefined) return null
  const result = await putTextBack(stored.result, stored.moved, blobs)
  const { artifactRefs, requestRef } = stored
  return { audit, result, artifactRefs, ...(requestRef === null ? {} : { requestRef }) }
}

/** Null when no attempt was recorded, or all have expired. */
export async function findExecution(
  db: Reader,
  executionId: string,
  keys: OutputKeys,
  blobs: BlobStore,
): Promise<StoredExecution | null> {
  const uuid = toUuid(executionId)
  if (uuid === null) return null
  const days = [...new Set((await attemptsOf(db, uuid)).map((found) => found.expiresOn))]
  const audit = await invocationsOf(db, uuid, days)
  const last = (await resultsOf(db, uuid, days, keys)).at(-1)
  if (last === undefined || audit.length === 0) return null
  const result = await putTextBack(last.result, last.moved, blobs)
  const { artifactRefs, requestRef } = last
  return { result, artifactRefs, requestRef, audit }
}

/** Null for an invalid execution ID, so that a caller gets "not found". */
function toUuid(executionId: string): string | null {
  const id = executionIdSchema.safeParse(executionId)
  return id.success ? idToUuid(id.data) : null
}
