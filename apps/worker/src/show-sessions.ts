/**
 * Shows the sessions whose sandboxes only this worker reaches, for `/v1/sessions`: when one changes, and every 20 s while
 * it is there. What a dead worker showed fades within a minute; its sessions are gone with it.
 */
import type { SessionEntry, SessionName, WorkerId } from '@cofferdam/contract'
import type { Sessions } from '@cofferdam/sessions'

/** A third of the minute for which one announcement holds. */
const AGAIN_MS = 20_000

/** What is known of a session here; null when it has ended. */
export type ShownState = { entry: SessionEntry; isBusy: boolean } | null

export interface ShownSessions extends AsyncDisposable {
  /** Returns at once; the last state of a session is what is shown. */
  show(name: SessionName, state: ShownState): void
}

interface Shown {
  name: SessionName
  state: ShownState
  /** Announcing now; what changed meanwhile is announced after it. */
  sending: Promise<void> | null
  isNew: boolean
}

export function showSessions(deps: {
  sessions: Pick<Sessions, 'announce'>
  self: WorkerId
  onError(error: unknown): void
}): ShownSessions {
  // Bounded by the worker's cells (warm.cells.max): an ended session leaves with its last announcement.
  const shown = new Map<string, Shown>()
  let isClosed = false
  const timer = setInterval(() => {
    for (const each of shown.values()) change(each)
  }, AGAIN_MS)
  timer.unref()

  function change(each: Shown): void {
    each.isNew = true
    each.sending ??= send(each).finally(() => {
      each.sending = null
    })
  }

  /** Never rejects: what was not said is said again in 20 s, or fades. */
  async function send(each: Shown): Promise<void> {
    while (each.isNew) {
      each.isNew = false
      const { name, state } = each
      await deps.sessions.announce(name, deps.self, state).catch((error: unknown) => deps.onError(error))
      if (each.state === null && !each.isNew) shown.delete(keyOf(name))
    }
  }

  return {
    show(name, state) {
      if (isClosed && state !== null) return
      const known = shown.get(keyOf(name)) ?? { name, state, sending: null, isNew: false }
      shown.set(keyOf(name), known)
      known.state = state
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

const keyOf = ({ tenantId, backend, key }: SessionName): string => `${tenantId}:${backend}:${key}`
