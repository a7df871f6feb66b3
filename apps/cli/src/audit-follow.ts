/**
 * Follows the audit feed: every row once, in the order of recording, through restarts of the API. With a file for the
 * cursor the next start goes on behind the last page that was shown.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { auditRowSchema, CofferdamError, ERRORS, parse, type AuditRow } from '@cofferdam/contract'
import { z } from 'zod'
import type { ApiConnection } from './api-connection.ts'
import { auditPath } from './audit-flags.ts'
import { CommandFailure } from './command-failure.ts'
import type { Terminal } from './terminal.ts'

const pageSchema = z.object({ invocations: z.array(auditRowSchema), cursor: z.string() })
const PAGE = '500'
/** Below the 30 s after which a call is given up. */
const WAIT = '20s'
const AGAIN_MS = 2000

export interface FollowOptions {
  api: ApiConnection
  terminal: Terminal
  parameters: Record<string, string>
  /** Keeps the cursor; absent: from now on. */
  cursorFile?: string
  /** Before the first page of the feed, with the feed already open: nothing falls between. Returns what it showed. */
  begin: () => Promise<readonly AuditRow[]>
  show: (row: AuditRow) => void
  stop: AbortSignal
}

/** Shows rows until `stop` aborts. A failure that may pass is told once and tried again. */
export async function followAudit(options: FollowOptions): Promise<void> {
  const { api, terminal, stop, cursorFile } = options
  const read = async (extra: Record<string, string>) =>
    parse(
      pageSchema,
      await api.call('GET', auditPath('feed', { ...options.parameters, limit: PAGE, ...extra })),
      'the answer',
    )
  const kept = cursorFile === undefined ? null : readCursorFile(cursorFile)
  let cursor = kept ?? (await read({})).cursor
  // What the list showed and the feed will show again: at most one page.
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
      if (!mayPass(error)) throw error
      if (!failing) terminal.note(`${error instanceof Error ? error.message : String(error)} Trying again.`)
      failing = true
      await pause(AGAIN_MS, undefined, { signal: stop }).catch(() => undefined)
    }
  }
}

const keyOf = (row: AuditRow): string => `${row.execution_id}.${row.attempt}`

function mayPass(error: unknown): boolean {
  if (error instanceof CofferdamError) return ERRORS[error.code].retry === 'later'
  // No answer at all, or none in time.
  return error instanceof CommandFailure || (error instanceof DOMException && error.name === 'TimeoutError')
}

function readCursorFile(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim() || null
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}

/** Whole or not at all: a torn cursor would be refused at the next start. */
function writeCursorFile(file: string, cursor: string): void {
  writeFileSync(`${file}.new`, `${cursor}\n`)
  renameSync(`${file}.new`, file)
}
