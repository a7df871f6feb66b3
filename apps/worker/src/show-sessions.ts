/**
 * Shows the sessions whose sandboxes only this worker reaches, for `/v1/sessions`: when one changes, and every 20 s while
 * it is there. What a dead worker showed fades within a minute; its sessions are gone with it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SessionEntry, SessionName, WorkerId } from '@cofferdam/contract'
import type { Sessions } from '@cofferdam/sessions'

/** A third of the minute for which one announcement holds. */
const AGAIN_MS = 20_000
/** Between two announcements of one session: in a loop of short runs it would be two scripts of each run's eleven, read by nobody in time. */
const PACE_MS = 100

/** What is known of a session here; null when it has ended. */
export type ShownState = { entry: SessionEntry; isBusy: boolean } | null

export interface ShownSessions extends AsyncDisposable {
  /** Returns at once; the last state of a session is what is shown. */
  show(name: SessionName, state: ShownState): void
}

interface Shown {
  name: SessionName
  state: ShownState
  /** Announcing now, or just has; what changed meanwhile is announced after it. */
  sending: Promise<void> | null
  isNew: boolean
  /** Ends the pause after an announcement: the end of a session is told at once. */
  hurry: AbortController
}

export function showSessions(deps: {
  sessions: Pick<Sessions, 'announce'>
  self: WorkerId
  onError(error: unknown): void
  paceMs?: number
}): ShownSessions {
  const { paceMs = PACE_MS } = deps
  // Bounded by the worker's cells (warm.cells.max): an ended session leaves with its last announcement.
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

  /** Never rejects: what was not said is said again in 20 s, or fades. */
  async function send(each: Shown): Promise<void> {
    while (each.isNew) {
      each.isNew = false
      const { name, state } = each
      await deps.sessions.announce(name, deps.self, state).catch((error: unknown) => deps.onError(error))
      if (each.state === null && !each.isNew) shown.delete(keyOf(name))
      // Rejects when it is hurried, which is as good.
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
      // Another session of this name began before the end of the last one was told.
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
