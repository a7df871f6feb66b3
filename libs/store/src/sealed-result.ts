/**
 * The parts of a result that come from the program, encrypted beside the rest of the row: what it printed and returned,
 * the tests it reports and the text of its failure. Numbers, names and times stay in clear, for they are searched.
 */
import {
  parseOfAnyRelease,
  resultSchema,
  type AttemptRecord,
  type ExecutionResult,
} from '@cofferdam/contract'
import type { OutputKeys } from './output-keys.ts'
import { openBytes, sealBytes, type SealedPlace } from './sealed-format.ts'

/** What stands instead in the audit row, which every reader of the tenant's audit sees. */
const FAILURE_SEALED = 'The reason is stored encrypted with the result.'
/** What is left of a result that has to be encrypted where no key is configured. */
const NOT_STORED = 'Not stored: it has to be encrypted, and there is no key for it here.'

/** False where nothing has to be encrypted: without a sandbox nothing of a program is in it, and a refusal stays readable. */
export const mustSeal = (record: AttemptRecord): boolean =>
  record.encrypt === true && record.result.backend !== null

/** `record` without what the program printed, and that encrypted; null where there was no key. */
export function sealResult(
  record: AttemptRecord,
  keys: OutputKeys,
): { record: AttemptRecord; sealed: string | null } {
  const { stdout, stderr, value, tests, install, error_message, ...rest } = record.result
  const text = { stdout, stderr, value, tests, install, error_message }
  const key = keys.current
  const sealed =
    key === null
      ? null
      : sealBytes(key, placeOf(record), Buffer.from(JSON.stringify(text))).toString('base64')
  return {
    record: {
      ...record,
      audit: {
        ...record.audit,
        failure_reason: record.audit.failure_reason === null ? null : FAILURE_SEALED,
      },
      result: {
        ...rest,
        stdout: '',
        stderr: key === null && stderr + stdout !== '' ? NOT_STORED : '',
      },
    },
    sealed,
  }
}

/** The whole result again. Throws `internal` when it was changed or its key is gone. */
export function unsealResult(
  result: ExecutionResult,
  tenantId: string,
  sealed: string | null,
  keys: OutputKeys,
): ExecutionResult {
  if (sealed === null) return result
  const where = placeOf({ audit: { tenant_id: tenantId }, result })
  const text: unknown = JSON.parse(openBytes(keys, where, Buffer.from(sealed, 'base64')).toString('utf8'))
  return parseOfAnyRelease(resultSchema, { ...result, ...(text as object) })
}

function placeOf(record: {
  audit: Pick<AttemptRecord['audit'], 'tenant_id'>
  result: Pick<ExecutionResult, 'execution_id' | 'attempt'>
}): SealedPlace {
  const { execution_id, attempt } = record.result
  return { tenant: record.audit.tenant_id, place: `results/${execution_id}/${attempt}` }
}
