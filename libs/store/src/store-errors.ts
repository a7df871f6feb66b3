/**
 * Classifies failures of Postgres, by SQLSTATE (postgresql.org, appendix A) or by the driver's message.
 *   away     the server does not answer or cannot write now         → store_unavailable
 *   set-up   the schema or the rights are missing                   → config_invalid
 *   data     this row or argument is refused                        → the caller decides
 */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'

/**
 * Classes: connection (08), resources (53), operator intervention (57), system error (58), rollback (40),
 * lock not available (55). 25006: a standby that is not promoted yet.
 */
const AWAY_CLASSES = new Set(['08', '53', '57', '58', '40', '55'])
const AWAY_CODES = new Set(['25006', 'XX000'])
const AWAY_ERRNO = /^(ECONN|EPIPE|ENOENT|ETIMEDOUT|EHOST|ENET|ENOTFOUND|EAI_|EACCES|ENOTCONN)/
const AWAY_WORDS =
  /timeout|Connection terminated|Client has encountered a connection error|not queryable|Client was closed|Connection ended/i
/** Undefined table, function or column, insufficient privilege, bad password, no such database or role. */
const SETUP_CODES = new Set(['42P01', '42883', '42703', '42501', '28P01', '28000', '3D000', '22023', '42704'])

export type StoreFailure = 'away' | 'set-up' | 'data'

/** A statement was sent and no answer came, so it may have been executed. `cause` is the driver's error. */
export class UnansweredError extends Error {
  constructor(cause: unknown) {
    super('A statement was not answered.', { cause })
  }
}

/** True when the failed write may still be in Postgres. */
export const mayBeStored = (error: unknown): boolean =>
  isCofferdamError(error) && error.code === 'store_unavailable' && error.cause instanceof UnansweredError

/** True if a server or pooler cut the connection, so the statement may have been executed. */
export const wasCutOff = (error: unknown): boolean => /^(08|57P0[123])/.test(sqlState(error) ?? '')

export function failureOf(error: unknown): StoreFailure {
  if (error instanceof UnansweredError) return failureOf(error.cause)
  if (isCofferdamError(error))
    return error.code === 'store_unavailable' ? 'away' : error.code === 'config_invalid' ? 'set-up' : 'data'
  const code = sqlState(error)
  if (code !== null && /^[0-9A-Z]{5}$/.test(code) && !AWAY_ERRNO.test(code)) {
    if (AWAY_CLASSES.has(code.slice(0, 2)) || AWAY_CODES.has(code)) return 'away'
    return SETUP_CODES.has(code) ? 'set-up' : 'data'
  }
  if (code !== null && AWAY_ERRNO.test(code)) return 'away'
  // A host that resolves to several addresses fails with one AggregateError.
  if (error instanceof AggregateError)
    return error.errors.every((e) => failureOf(e) === 'away') ? 'away' : 'data'
  return AWAY_WORDS.test(messageOf(error)) ? 'away' : 'data'
}

/** The SQLSTATE or errno code of an error, or null. */
export function sqlState(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
}

/** The name of the violated constraint, or null. */
export function constraintOf(error: unknown): string | null {
  return error instanceof Error && 'constraint' in error && typeof error.constraint === 'string'
    ? error.constraint
    : null
}

/** Translates an error. A data failure becomes `internal`, or `invalid_request` with `dataIs: 'input'`. */
export function toStoreError(
  error: unknown,
  what: string,
  dataIs: 'ours' | 'input' = 'ours',
): CofferdamError {
  if (isCofferdamError(error)) return error
  const failure = failureOf(error)
  if (failure === 'away')
    return new CofferdamError('store_unavailable', `The store (Postgres) does not answer: ${what}.`, {
      cause: error,
    })
  if (failure === 'set-up')
    return new CofferdamError(
      'config_invalid',
      `The store is not set up for ${what} (${sqlState(error) ?? 'unknown'}). ` +
        'Run the migrations with the owner of the schema, and let DATABASE_URL name a user that may ' +
        'SET ROLE cofferdam_app.',
      { cause: error },
    )
  if (dataIs === 'input')
    return new CofferdamError('invalid_request', `The store refused the values of ${what}.`, { cause: error })
  return new CofferdamError('internal', `The store refused ${what}.`, { cause: error })
}

export async function translating<T>(
  what: string,
  work: () => Promise<T>,
  dataIs: 'ours' | 'input' = 'ours',
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw toStoreError(error, what, dataIs)
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
