/**
 * Encrypts the parts of a result that come from the program: output, value, test and install reports, and the
 * text of its failure. Numbers, names and times stay in clear, because they are searched.
 */
import {
  parseOfAnyRelease,
  resultSchema,
  type AttemptRecord,
  type ExecutionResult,
} from '@cofferdam/contract'
import type { OutputKeys } from './output-keys.ts'
import { openBytes, sealBytes, type SealedLocation } from './sealed-format.ts'

/** Replaces the reason in the audit row, which every reader of the tenant's audit sees. */
const FAILURE_SEALED = 'The reason is stored encrypted with the result.'
/** Replaces the output if it must be encrypted and there is no key. */
const NOT_STORED = 'Not stored: it has to be encrypted, and there is no key for it here.'

/** Whether the result must be encrypted. Without a sandbox (a refusal) it has nothing of a program. */
export const mustSeal = (record: AttemptRecord): boolean =>
  record.encrypt === true && record.result.backend !== null

/** Splits `record`: the program's parts move to `sealed`, encrypted. `sealed` is null without a key. */
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
      : sealBytes(key, locationOf(record), Buffer.from(JSON.stringify(text))).toString('base64')
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

/** Restores the full result. Throws `internal` when it was altered or its key is missing. */
export function unsealResult(
  result: ExecutionResult,
  tenantId: string,
  sealed: string | null,
  keys: OutputKeys,
): ExecutionResult {
  if (sealed === null) return result
  const where = locationOf({ audit: { tenant_id: tenantId }, result })
  const text: unknown = JSON.parse(openBytes(keys, where, Buffer.from(sealed, 'base64')).toString('utf8'))
  return parseOfAnyRelease(resultSchema, { ...result, ...(text as object) })
}

function locationOf(record: {
  audit: Pick<AttemptRecord['audit'], 'tenant_id'>
  result: Pick<ExecutionResult, 'execution_id' | 'attempt'>
}): SealedLocation {
  const { execution_id, attempt } = record.result
  return { tenant: record.audit.tenant_id, location: `results/${execution_id}/${attempt}` }
}
