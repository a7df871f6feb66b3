/** Keyset cursors over (execution_id, attempt), newest first: stable while rows arrive, and no page costs more than the first. */
import { CofferdamError } from '@cofferdam/contract'

export interface Position {
  executionUuid: string
  attempt: number
}

/** A page of a list. */
export interface Page<T> {
  rows: T[]
  /** Pass it back for the next page, whatever this one holds; null at the end. */
  next_cursor: string | null
}

/** A page of more rows would hold a connection for longer than the statement timeout on a slow machine. */
export const MAX_PAGE = 500

export const writeCursor = (position: Position): string =>
  Buffer.from(`${position.executionUuid}.${position.attempt}`).toString('base64url')

/** The cursor behind one row, for whoever kept its key instead of a page's cursor. */
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
