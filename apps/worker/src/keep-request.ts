/**
 * Keeps the request of an ended execution, so that it can be run again, if the tenant's policy says so. It is
 * written before the audit row, whose result refers to it. The first row of an attempt is valid, so exactly
 * one of several writers keeps a request, and the others delete theirs.
 */
import { keptRequestOf, type AttemptRecord, type TenantPolicy } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import type { WorkerDeps } from './worker-deps.ts'

export type KeepRules = Pick<TenantPolicy, 'keep_program' | 'encrypt_outputs' | 'redact'>

/** Bytes that are given to the blob store at once. */
const PIECE_BYTES = 1024 * 1024

/**
 * Returns the reference of the kept request, or null. Call it for the last attempt only. Never rejects: an
 * ending must not fail because its request cannot be kept.
 */
export async function keepRequest(
  { executionId, attempt, request }: Pick<Taken, 'executionId' | 'attempt' | 'request'>,
  { result }: AttemptRecord,
  rules: KeepRules | undefined,
  { store, canEncrypt, logger }: Pick<WorkerDeps, 'store' | 'canEncrypt' | 'logger'>,
): Promise<string | null> {
  if (rules === undefined || !isWanted(rules.keep_program, request.program.type, result)) return null
  // If the policy encrypts or redacts outputs, the request must not be stored in the clear either. Without a
  // key, it is not kept.
  if (!canEncrypt && (rules.encrypt_outputs || rules.redact.length > 0)) {
    logger.warn({ execution_id: executionId }, 'a program is not kept, because there is no key to encrypt it')
    return null
  }
  try {
    const sink = await store.blobs.create({
      tenantId: request.tenant_id,
      executionId,
      attempt,
      name: 'request',
      encrypt: canEncrypt,
    })
    try {
      const bytes = Buffer.from(JSON.stringify(keptRequestOf(request, canEncrypt)))
      for (let at = 0; at < bytes.length; at += PIECE_BYTES)
        await sink.write(bytes.subarray(at, at + PIECE_BYTES))
      return await sink.commit()
    } catch (error) {
      await sink.abort()
      throw error
    }
  } catch (error) {
    logger.warn({ err: error, execution_id: executionId }, 'a program could not be kept')
    return null
  }
}

/**
 * Without a sandbox nothing ran and nothing is charged, so no cap would bound what is stored. Operations on
 * the files of a session run no program.
 */
function isWanted(
  keep: TenantPolicy['keep_program'],
  type: string,
  { backend, ending }: AttemptRecord['result'],
): boolean {
  if (backend === null || type === 'files') return false
  return keep === 'always' || (keep === 'errors' && ending !== 'ok')
}

/**
 * Deletes the request that this worker kept for `mine`, if the row of an earlier owner (`valid`) counts
 * instead.
 */
export async function dropUnusedRequest(
  mine: AttemptRecord,
  valid: AttemptRecord | null,
  { store, logger }: Pick<WorkerDeps, 'store' | 'logger'>,
): Promise<void> {
  if (mine.requestRef === undefined || valid === null || valid.requestRef === mine.requestRef) return
  await store.blobs.delete(mine.requestRef).catch((error: unknown) => {
    // Retention deletes it later, with the other blobs of the execution.
    logger.warn({ err: error }, 'a kept program that no row refers to could not be deleted')
  })
}
