/** Keyset cursors over (execution_id, attempt), newest first: stable while rows arrive, at constant cost. */
import { CofferdamError } from '@cofferdam/contract'

export interface Position {
  executionUuid: string
  attempt: number
}

export interface Page<T> {
  rows: T[]
  /** Cursor of the next page, even if this one is empty. Null at the end. */
  next_cursor: string | null
}

/** On a slow machine, a larger page would exceed the statement timeout. */
export const MAX_PAGE = 500

export const writeCursor = (position: Position): string =>
  Buffer.from(`${position.executionUuid}.${position.attempt}`).toString('base64url')

/** The cursor after one row, for callers that have its key. */
export const auditCursor = (executionUuid: string, attempt: number): string =>
  writeCursor({ executionUuid, attempt })

/** Throws `invalid_request` for anything that `writeCursor` did not make. */
export function readCursor(cursor: string): Position {
  const text = Buffer.from(cursor.slice(0, 200), 'base64url').toString('utf8')
  const [, executionUuid, attempt] =
    /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.(\d{1,9})$/.exec(text) ?? []
  if (executionUuid === undefined || attempt === undefined)
    throw new CofferdamError('invalid_request', 'cursor: expected the next_cursor of an earlier page.')
  return { executionUuid, attempt: Number(attempt) }
}

/** Throws `invalid_request` outside of 1…500. */
export function checkLimit(limit: number): number {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_PAGE)
    throw new CofferdamError(
      'invalid_request',
      `limit: expected a whole number from 1 to ${MAX_PAGE}, got ${limit}.`,
    )
  return limit
}
