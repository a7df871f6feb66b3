/**
 * Follows the audit feed: every row once, in the order of recording, even when the API restarts. With a
 * cursor file, the next start continues after the last page that was shown.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { type AuditRow, auditRowSchema, CofferdamError, ERRORS } from '@cofferdam/contract'
import { z } from 'zod'
import type { ApiConnection } from './api-connection.ts'
import { auditPath } from './audit-flags.ts'
import { CommandFailure, systemCode } from './command.ts'
import type { Terminal } from './terminal.ts'

const pageSchema = z.object({ invocations: z.array(auditRowSchema), cursor: z.string() })
const PAGE = '500'
/** Less than the 30 s timeout of a call. */
const WAIT = '20s'
const AGAIN_MS = 2000

export interface FollowOptions {
  api: ApiConnection
  terminal: Terminal
  parameters: Record<string, string>
  /** The file that stores the cursor. Absent: start now. */
  cursorFile?: string
  /**
   * Called when the feed is open, so that no row is missed, but not if the file has a cursor. Returns the
   * rows that it showed.
   */
  begin: () => Promise<readonly AuditRow[]>
  show: (row: AuditRow) => void
  stop: AbortSignal
}

/** Shows rows until `stop` aborts. Reports a transient failure once and retries. */
export async function followAudit(options: FollowOptions): Promise<void> {
  const { api, terminal, stop, cursorFile } = options
  const read = (extra: Record<string, string>) =>
    api.ask(pageSchema, 'GET', auditPath('feed', { ...options.parameters, limit: PAGE, ...extra }))
  const kept = cursorFile === undefined ? null : readCursorFile(cursorFile)
  let cursor = kept ?? (await read({})).cursor
  // Rows that `begin` showed and that the feed returns again: at most one page.
  const shown = new Set(kept === null ? (await options.begin()).map(keyOf) : [])
  let failing = false
  while (!stop.aborted) {
    try {
      const page = await read({ cursor, wait: WAIT })
      for (const row of page.invocations) if (!shown.delete(keyOf(row))) options.show(row)
      cursor = page.cursor
      if (cursorFile !== undefined) writeCursorFile(cursorFile, cursor)
      failing = false
    } catch (error) {
      if (stop.aborted) return
      if (!isTransient(error)) throw error
      if (!failing) terminal.note(`${error instanceof Error ? error.message : String(error)} Retrying.`)
      failing = true
      await pause(AGAIN_MS, undefined, { signal: stop }).catch(() => undefined)
    }
  }
}

const keyOf = (row: AuditRow): string => `${row.execution_id}.${row.attempt}`

function isTransient(error: unknown): boolean {
  if (error instanceof CofferdamError) return ERRORS[error.code].retry === 'later'
  // The API did not answer, or not in time.
  return error instanceof CommandFailure || (error instanceof DOMException && error.name === 'TimeoutError')
}

function readCursorFile(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim() || null
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw error
  }
}

/** Writes the file atomically, because the next start would refuse an incomplete cursor. */
function writeCursorFile(file: string, cursor: string): void {
  writeFileSync(`${file}.new`, `${cursor}\n`)
  renameSync(`${file}.new`, file)
}
