/**
 * Ends sessions so that they stay ended: an identifier without a session silently gets one, and calls that left before the end may arrive
 * after it, for they take connections of their own.
 *
 *   calls on their way ──answered, or long on their way──▶ end ──▶ over: no further call is made
 *                                                           └─some may still arrive──▶ later: end again
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { unlessAborted } from '@cofferdam/contract'

/** What left so long ago has arrived, or takes more than the executor waits for an end (5 s). */
const ARRIVES_MS = 3000
/** What got no answer in its time may wait in the service for so long until it begins something. */
const LATE_MS = 30_000
/** Ends of the last hours: what is asked again after one is asked within minutes. */
const REMEMBERED_MAX = 10_000

interface Call {
  /** Held open by the other side until it has something to say. */
  isPoll: boolean
  stop: AbortController
  sinceMs: number
  /** When it failed without an answer; null before, and for one that is answered. */
  lostMs: number | null
  settled: Promise<void>
}

export interface EndingSessions {
  /** Whoever begins one means a new one. Only a registry that forgot its epochs gives an identifier twice. */
  begin(identifier: string): void
  /** A call that is made now; `stop` cuts it. */
  follow(identifier: string, call: { isPoll: boolean; stop: AbortController; answer: Promise<unknown> }): void
  /** Its end was asked for: whatever is asked of it would begin another one. */
  isOver(identifier: string): boolean
  /** Ends a session by `work`, and resolves as the first `work` does. */
  end<T>(identifier: string, work: () => Promise<T>): Promise<T>
  /** Ends again at once what is to be ended again; resolves when that is done. */
  settle(): Promise<void>
}

/** `onUnended` hears why a session that was begun anew by a late call could not be ended. */
export function createEndingSessions(
  onUnended: (identifier: string, error: unknown) => void,
): EndingSessions {
  /** Those that may still arrive. */
  const calls = new Map<string, Set<Call>>()
  const over = new Set<string>()
  const again = new Map<Promise<void>, AbortController>()

  function remember(identifier: string): void {
    over.add(identifier)
    const [oldest] = over
    if (over.size > REMEMBERED_MAX && oldest !== undefined) over.delete(oldest)
  }

  function forget(identifier: string, call: Call): void {
    const all = calls.get(identifier)
    all?.delete(call)
    if (all?.size === 0) calls.delete(identifier)
  }

  async function endAgain(
    identifier: string,
    left: readonly Call[],
    work: () => Promise<unknown>,
    now: AbortSignal,
  ): Promise<void> {
    await Promise.all(left.filter(({ isPoll }) => !isPoll).map(({ settled }) => settled))
    const due = left.map(({ isPoll, sinceMs, lostMs }) =>
      isPoll ? sinceMs + ARRIVES_MS : lostMs === null ? 0 : lostMs + LATE_MS,
    )
    const inMs = Math.max(0, ...due) - performance.now()
    if (inMs > 0) await sleep(inMs, undefined, { ref: false, signal: now }).catch(() => undefined)
    await work().catch((error: unknown) => onUnended(identifier, error))
  }

  return {
    begin: (identifier) => void over.delete(identifier),
    follow(identifier, { isPoll, stop, answer }) {
      const all = calls.get(identifier) ?? new Set<Call>()
      const call: Call = {
        isPoll,
        stop,
        sinceMs: performance.now(),
        lostMs: null,
        settled: Promise.resolve(),
      }
      calls.set(identifier, all.add(call))
      call.settled = answer.then(
        () => forget(identifier, call),
        () => {
          call.lostMs = performance.now()
          setTimeout(() => forget(identifier, call), LATE_MS).unref()
        },
      )
    },
    isOver: (identifier) => over.has(identifier),
    async end(identifier, work) {
      remember(identifier)
      await Promise.all([...(calls.get(identifier) ?? [])].map(arrived))
      const left = [...(calls.get(identifier) ?? [])].filter(mayArrive)
      try {
        return await work()
      } finally {
        for (const { isPoll, stop } of calls.get(identifier) ?? []) if (isPoll) stop.abort()
        if (left.length > 0) {
          const now = new AbortController()
          const ending = endAgain(identifier, left, work, now.signal).finally(() => again.delete(ending))
          again.set(ending, now)
        }
      }
    },
    async settle() {
      for (const now of again.values()) now.abort()
      await Promise.all(again.keys())
    },
  }
}

/** Nobody waits for a poll, which may be held open for long: what it begins is ended again. */
async function arrived({ isPoll, sinceMs, lostMs, settled }: Call): Promise<void> {
  const leftMs = Math.ceil(ARRIVES_MS - (performance.now() - sinceMs))
  if (isPoll || lostMs !== null || leftMs <= 0) return
  await unlessAborted(settled, AbortSignal.timeout(leftMs)).catch(() => undefined)
}

const mayArrive = ({ isPoll, sinceMs }: Call): boolean => !isPoll || performance.now() - sinceMs < ARRIVES_MS
