/**
 * Warm sessions: started and proven ready before a request, one for each of the last used interpreters. They
 * cost money, so their number and age are limited. Their names contain the worker, so that others can stop
 * them if the worker dies.
 *
 *   starting ──ready──▶ waiting ──take──▶ the caller's, for one execution or one turn
 *       │ failed           │ too old (replaced), or another interpreter takes its slot (not replaced)
 *       ▼                  ▼
 *     none              stopped
 */
import type { WarmDeps, WarmEvent } from '@cofferdam/sandbox/warm'
import type { CellSession } from './cell-session.ts'
import { discard, openSession, type OpenParts } from './open-session.ts'
import { warmName } from './session-name.ts'

/** Pause for an interpreter after a failed start. */
const REST_MS = 5_000

/** A warm session. */
export interface Waited {
  session: CellSession
  /** The session's name at the service. */
  name: string
  /** Time at which the service ends it. */
  endsAtMs: number
}

interface Waiting extends Waited {
  ageing: NodeJS.Timeout
}

/** The warm session of one interpreter. */
interface Place {
  waiting: Waiting | null
  isStarting: boolean
  restUntilMs: number
}

export interface WarmSessions {
  /**
   * Takes an interpreter's warm session if it lives long enough and answers; the caller must stop it. Null
   * otherwise. Starts a replacement. Throws the reason of `signal`.
   */
  take(interpreter: string, lastsUntilMs: number, signal: AbortSignal): Promise<Waited | null>
  /**
   * Keeps a warm session of the interpreter from now on. At the maximum, the least recently used interpreter
   * loses its own.
   */
  keep(interpreter: string): void
  /** Stops all warm sessions and starts no more. */
  close(): Promise<void>
}

export interface WarmParts extends OpenParts {
  backend: string
  prefix: string
  /** Maximum number of interpreters with a warm session; 0 for none. */
  max: number
  maxAgeMs: number
  /** Life of a session from its start. A program may use what is left of it. */
  lifeMs: number
  /** Without them, nothing is kept warm. */
  deps: WarmDeps | undefined
}

export function createWarmSessions(parts: WarmParts): WarmSessions {
  const { backend, deps, max } = parts
  /** In the order of their last use. */
  const places = new Map<string, Place>()
  const closing = new AbortController()
  const work = new Set<Promise<void>>()
  const isOff = max === 0 || deps === undefined || !deps.config.pools.enabled
  const observe = (event: WarmEvent): void => deps?.observe?.(event)

  function track(promise: Promise<void>): void {
    const done = promise.finally(() => work.delete(done))
    work.add(done)
  }

  async function start(interpreter: string, place: Place, owner: WarmDeps['owner']): Promise<void> {
    const startedMs = Date.now()
    const name = warmName(parts.prefix, owner)
    const wish = { interpreter, name, seconds: Math.ceil(parts.lifeMs / 1000), token: [name] }
    place.isStarting = true
    try {
      const session = await openSession(parts, wish, closing.signal)
      observe({ type: 'warmed', backend, ms: Date.now() - startedMs })
      if (closing.signal.aborted || places.get(interpreter) !== place) return await drop(session, 'surplus')
      const ageing = setTimeout(() => replace(interpreter, place), parts.maxAgeMs).unref()
      place.waiting = { session, name, endsAtMs: startedMs + parts.lifeMs, ageing }
    } catch (error) {
      if (closing.signal.aborted) return
      place.restUntilMs = Date.now() + REST_MS
      observe({ type: 'warm_failed', backend })
      parts.logger.warn({ err: error, interpreter }, 'a warm slot did not start')
    } finally {
      place.isStarting = false
    }
  }

  function fill(interpreter: string, place: Place): void {
    const isFull = place.waiting !== null || place.isStarting || Date.now() < place.restUntilMs
    if (deps !== undefined && !isFull) track(start(interpreter, place, deps.owner))
  }

  function replace(interpreter: string, place: Place): void {
    empty(place, 'age')
    fill(interpreter, place)
  }

  function empty(place: Place, why: 'age' | 'idle' | 'surplus'): void {
    const waited = taken(place)
    if (waited !== null) track(drop(waited.session, why))
  }

  function taken(place: Place): Waited | null {
    const { waiting } = place
    place.waiting = null
    clearTimeout(waiting?.ageing)
    return waiting
  }

  async function drop(session: CellSession, why: 'age' | 'idle' | 'surplus' | 'died'): Promise<void> {
    observe({ type: 'dropped', backend, why })
    await discard(parts, session.id)
  }

  function keep(interpreter: string): void {
    if (isOff || closing.signal.aborted) return
    const place = places.get(interpreter) ?? { waiting: null, isStarting: false, restUntilMs: 0 }
    places.delete(interpreter)
    places.set(interpreter, place)
    for (const [longest, unused] of places) {
      if (places.size <= max) break
      places.delete(longest)
      empty(unused, 'surplus')
    }
    fill(interpreter, place)
  }

  return {
    async take(interpreter, lastsUntilMs, signal) {
      if (isOff) return null
      const place = places.get(interpreter)
      const lasts = (place?.waiting?.endsAtMs ?? 0) >= lastsUntilMs
      const waited = place !== undefined && lasts ? taken(place) : null
      keep(interpreter)
      const isAlive = waited !== null && (await waited.session.isAlive(signal).catch(() => false))
      observe({ type: 'taken', backend, warm: isAlive })
      if (isAlive && !signal.aborted) return waited
      if (waited !== null) await drop(waited.session, 'died')
      signal.throwIfAborted()
      return null
    },
    keep,
    async close() {
      closing.abort(new Error('the backend is closed'))
      for (const place of places.values()) empty(place, 'idle')
      places.clear()
      while (work.size > 0) await Promise.all(work)
    },
  }
}
