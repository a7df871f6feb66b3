/**
 * Announces the sessions whose sandboxes only this worker reaches, so that `/v1/sessions` lists them: on each
 * change, and every 20 s. The announcements of a dead worker expire within a minute.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SessionEntry, SessionName, WorkerId } from '@cofferdam/contract'
import type { Sessions } from '@cofferdam/sessions'

/** An announcement expires after three times this period. */
const AGAIN_MS = 20_000
/** Shortest time between announcements of a session. Else a loop of short runs would announce each twice. */
const PACE_MS = 100

/** The state of a session. Null when it has ended. */
export type ShownState = { entry: SessionEntry; isBusy: boolean } | null

export interface ShownSessions extends AsyncDisposable {
  /** Announces the state in the background. Intermediate states can be skipped, the last one never. */
  show(name: SessionName, state: ShownState): void
}

interface Shown {
  name: SessionName
  state: ShownState
  /** The loop that announces until there is no newer state. Null while idle. */
  sending: Promise<void> | null
  isNew: boolean
  /**
   * Aborted when the session ends. This ends the pause after an announcement, so that the end is announced at
   * once.
   */
  hurry: AbortController
}

export function showSessions(deps: {
  sessions: Pick<Sessions, 'announce'>
  self: WorkerId
  onError(error: unknown): void
  paceMs?: number
}): ShownSessions {
  const { paceMs = PACE_MS } = deps
  // Bounded by the worker's cells (warm.cells.max): ended sessions are removed after their last announcement.
  const shown = new Map<string, Shown>()
  let isClosed = false
  const timer = setInterval(() => {
    for (const each of shown.values()) change(each)
  }, AGAIN_MS)
  timer.unref()

  function change(each: Shown): void {
    each.isNew = true
    if (each.state === null) each.hurry.abort()
    each.sending ??= send(each)
  }

  /** Never rejects. A failed announcement is repeated in 20 s. */
  async function send(each: Shown): Promise<void> {
    while (each.isNew) {
      each.isNew = false
      const { name, state } = each
      await deps.sessions.announce(name, deps.self, state).catch((error: unknown) => deps.onError(error))
      if (each.state === null && !each.isNew) shown.delete(keyOf(name))
      // `hurry` rejects the pause, which ends it.
      else await sleep(paceMs, undefined, { signal: each.hurry.signal }).catch(() => undefined)
    }
    each.sending = null
  }

  return {
    show(name, state) {
      if (isClosed && state !== null) return
      const known = shown.get(keyOf(name)) ?? begin(name, state)
      shown.set(keyOf(name), known)
      known.state = state
      // A new session of this name began before the end of the last one was announced.
      if (state !== null && known.hurry.signal.aborted) known.hurry = new AbortController()
      change(known)
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      clearInterval(timer)
      for (const each of shown.values()) {
        each.state = null
        change(each)
      }
      await Promise.all([...shown.values()].map(async (each) => await each.sending))
    },
  }
}

const begin = (name: SessionName, state: ShownState): Shown => ({
  name,
  state,
  sending: null,
  isNew: false,
  hurry: new AbortController(),
})

const keyOf = ({ tenantId, backend, key }: SessionName): string => `${tenantId}:${backend}:${key}`
