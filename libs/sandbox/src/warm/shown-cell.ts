/** A session's cell as `/v1/sessions` shows it. */
import type { ExecutionId, SessionEntry, SessionId, SessionScope } from '@cofferdam/contract'

/** Only its worker reaches it: there is no epoch and no handle that another could use. */
export function shownCell(
  cell: {
    id: SessionId
    scope: SessionScope
    startedMs: number
    idleMs: number
    idleSinceMs: number | null
    executionId: ExecutionId
  },
  maxAgeMs: number,
): { entry: SessionEntry; isBusy: boolean } {
  const usedAtMs = cell.idleSinceMs ?? Date.now()
  const expiresAtMs = cell.startedMs + maxAgeMs
  return {
    entry: {
      sessionId: cell.id,
      scope: cell.scope,
      epoch: 0,
      handle: {},
      createdAtMs: cell.startedMs,
      usedAtMs,
      executionId: cell.executionId,
      idleAtMs: Math.min(usedAtMs + cell.idleMs, expiresAtMs),
      expiresAtMs,
    },
    isBusy: cell.idleSinceMs === null,
  }
}
