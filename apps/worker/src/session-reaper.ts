/**
 * Ends sessions that any worker can attach to, when their idle time or their vendor's time is over.
 *
 *   every tick, per backend: overdue? → claim without waiting
 *     somebody holds it → it is in use, next time
 *     still overdue     → its backend ends it, then it is forgotten
 *
 * Any number of workers do this at once, because the claim decides. A session that cannot be ended now stays
 * overdue and is retried after growing pauses (`overdue` in the contract).
 */
import {
  isCofferdamError,
  type Backend,
  type SessionLease,
  type SessionName,
  type SessionRegistry,
  type WorkerId,
} from '@cofferdam/contract'

/**
 * Overdue sessions per round. With eight at once that take a second each, a round takes 13 s. Ticks during it
 * are skipped.
 */
const ROUND = 100
const AT_ONCE = 8
/** A vendor that takes longer is asked again. */
const END_MS = 30_000

/**
 * Ends a claimed session at its backend, then forgets it. If it throws, the session may not have ended: it
 * stays listed and becomes overdue.
 */
export async function endSession(backend: Backend, lease: SessionLease, signal: AbortSignal): Promise<void> {
  if (lease.entry === null) return
  // Marks the session as ending, so that nobody can join it. A holder that stalls and is replaced then cannot
  // end the work of its successor.
  if (lease.entry.turn === undefined) await lease.keep({ ...lease.entry, turn: 'ending' })
  const bounded = AbortSignal.any([signal, lease.signal, AbortSignal.timeout(END_MS)])
  await backend.endSession?.(lease.name, lease.entry, bounded)
  await lease.forget()
}

export interface SessionReaper extends AsyncDisposable {
  /**
   * Runs one round over all backends, or joins the current one. Resolves with the number of sessions that it
   * ended.
   */
  round(): Promise<number>
}

/**
 * Starts a round every `tickMs`. Disposing stops the current round. Its remaining sessions stay overdue for
 * another worker.
 */
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
  // A tick during a long round is skipped, so rounds do not overlap.
  const round = (): Promise<number> =>
    (running ??= reapAll().finally(() => {
      running = null
    }))
  const timer = setInterval(() => void round(), deps.tickMs)
  timer.unref()

  async function reapAll(): Promise<number> {
    // In parallel, so that a hanging vendor delays only its own sessions.
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

  /** True when this worker ended it. */
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
