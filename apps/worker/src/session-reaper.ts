/**
 * Ends sessions that any worker can attach to once nobody used them for their idle time, or their vendor's time is over.
 *
 *   every tick, per backend: overdue? ─▶ claim without waiting ─ held: somebody uses it, next time
 *                                          └─▶ still overdue ─▶ the backend ends it ─▶ forgotten
 *
 * Any number of workers do this at once: the claim decides. What cannot be ended now stays overdue and is tried again,
 * after pauses that grow (contract: `overdue`).
 */
import {
  isCofferdamError,
  type Backend,
  type SessionName,
  type SessionRegistry,
  type WorkerId,
} from '@cofferdam/contract'
import { endSession } from './end-session.ts'

/** Overdue sessions looked at in one tick: at eight at once and a second each, a tick's time. */
const ROUND = 100
const AT_ONCE = 8

export interface SessionReaper extends AsyncDisposable {
  /** One round over all backends, or the one under way; resolves with the number of sessions that were ended. Never rejects. */
  round(): Promise<number>
}

/** Starts to reap every `tickMs`. Disposing stops what is under way: it stays overdue for another worker. */
export function createSessionReaper(deps: {
  backends: ReadonlyMap<string, Backend>
  sessions: SessionRegistry
  self: WorkerId
  tickMs: number
  onEnded(name: SessionName): void
  onError(error: unknown): void
}): SessionReaper {
  const stop = new AbortController()
  const reapable = [...deps.backends.values()].filter((backend) => backend.endSession !== undefined)
  let running: Promise<number> | null = null
  // A round that takes longer than a tick must not meet itself; the ticks of that time are not made up for.
  const round = (): Promise<number> =>
    (running ??= reapAll().finally(() => {
      running = null
    }))
  const timer = setInterval(() => void round(), deps.tickMs)
  timer.unref()

  async function reapAll(): Promise<number> {
    // At once: a vendor that hangs holds up its own sessions alone.
    const ended = await Promise.all(reapable.map(reapBackend))
    return ended.reduce((sum, count) => sum + count, 0)
  }

  async function reapBackend(backend: Backend): Promise<number> {
    try {
      const names = await deps.sessions.overdue(backend.name, ROUND)
      let ended = 0
      const next = async (): Promise<void> => {
        for (let name = names.shift(); name !== undefined && !stop.signal.aborted; name = names.shift())
          if (await reap(backend, name)) ended += 1
      }
      await Promise.all(Array.from({ length: AT_ONCE }, next))
      return ended
    } catch (error) {
      deps.onError(error)
      return 0
    }
  }

  /** True when this worker ended it. Never rejects. */
  async function reap(backend: Backend, name: SessionName): Promise<boolean> {
    try {
      await using lease = await deps.sessions.claim(name, deps.self, { waitMs: 0, signal: stop.signal })
      if (!lease.isOverdue) return false
      await endSession(backend, lease, stop.signal)
      deps.onEnded(name)
      return true
    } catch (error) {
      const isHeld = isCofferdamError(error) && error.code === 'conflict'
      if (!isHeld && !stop.signal.aborted) deps.onError(error)
      return false
    }
  }

  return {
    round,
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      stop.abort(new Error('the worker closes'))
      await running
    },
  }
}
