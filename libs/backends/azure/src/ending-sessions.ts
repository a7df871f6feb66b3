/**
 * Ends sessions so that they stay ended: an identifier without a session silently gets one, and calls that left before the end may arrive
 * after it, for they take connections of their own.
 *
 *   calls on their way ──answered, or long on their way──▶ end ──▶ over: no further call is made
 *                     some may still arrive, or none was found of a young one ─┴─▶ later: end again, for some more than once
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { unlessAborted } from '@cofferdam/contract'

/** What left so long ago has arrived, or is waited for no longer: whoever ends it waits, too. */
const ARRIVES_MS = 3000
/** What got no answer in its time may begin something by then: looked at more than once, for what began occupies the pool. */
const LATE_MS = [3000, 10_000, 30_000] as const
/** The service's management may not know yet of a session that is so young: that it finds none proves nothing. */
const YOUNG_MS = 10_000
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
  /** What began it was answered: it is there. */
  began(identifier: string): void
  /** A call that is made now; `stop` cuts it. */
  follow(identifier: string, call: { isPoll: boolean; stop: AbortController; answer: Promise<unknown> }): void
  /** Its end was asked for: whatever is asked of it would begin another one. */
  isOver(identifier: string): boolean
  /** Ends a session by `work`, which resolves to false where there was none, and resolves as the first `work` does. */
  end(identifier: string, work: () => Promise<boolean>): Promise<boolean>
  /** Ends again at once what is to be ended again; resolves when that is done. */
  settle(): Promise<void>
}

/**
 * `onUnended` hears why a session that was begun anew by a late call could not be ended. `lateMs`: when after the loss of a call its session
 * is ended again, the last when nothing can begin any more.
 */
export function createEndingSessions(
  onUnended: (identifier: string, error: unknown) => void,
  lateMs: readonly number[] = LATE_MS,
): EndingSessions {
  /** Those that may still arrive. */
  const calls = new Map<string, Set<Call>>()
  const over = new Set<string>()
  /** When they began, of YOUNG_MS: no more than are opened in that time. */
  const young = new Map<string, number>()
  const again = new Map<Promise<void>, AbortController>()

  function remember(identifier: string): void {
    over.add(identifier)
    const [oldest] = over
    if (over.size > REMEMBERED_MAX && oldest !== undefined) over.delete(oldest)
  }

  function isYoung(identifier: string): boolean {
    return performance.now() - (young.get(identifier) ?? Number.NEGATIVE_INFINITY) < YOUNG_MS
  }

  function forget(identifier: string, call: Call): void {
    const all = calls.get(identifier)
    all?.delete(call)
    if (all?.size === 0) calls.delete(identifier)
  }

  async function endAgain(
    identifier: string,
    left: readonly Call[],
    hiddenMs: number,
    work: () => Promise<boolean>,
    now: AbortSignal,
  ): Promise<void> {
    const others = left.filter(({ isPoll }) => !isPoll)
    await Promise.all(others.map(({ settled }) => settled))
    const fromMs = Math.max(hiddenMs, ...others.map((call) => call.lostMs ?? 0))
    const pollMs = Math.max(0, ...left.map(({ isPoll, sinceMs }) => (isPoll ? sinceMs + ARRIVES_MS : 0)))
    for (const dueMs of fromMs === 0 ? [pollMs] : lateMs.map((ms) => fromMs + ms)) {
      const inMs = dueMs - performance.now()
      if (inMs > 0) await sleep(inMs, undefined, { ref: false, signal: now }).catch(() => undefined)
      await work().catch((error: unknown) => onUnended(identifier, error))
      if (now.aborted) return
    }
  }

  return {
    begin: (identifier) => void over.delete(identifier),
    began(identifier) {
      for (const other of young.keys()) if (!isYoung(other)) young.delete(other)
      young.set(identifier, performance.now())
    },
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
          setTimeout(() => forget(identifier, call), Math.max(...lateMs)).unref()
        },
      )
    },
    isOver: (identifier) => over.has(identifier),
    async end(identifier, work) {
      remember(identifier)
      await Promise.all([...(calls.get(identifier) ?? [])].map(arrived))
      const left = [...(calls.get(identifier) ?? [])].filter(mayArrive)
      /** When it was said that there is no session of one that is young; 0 otherwise. */
      let hiddenMs = 0
      try {
        const found = await work()
        if (found) young.delete(identifier)
        else if (isYoung(identifier)) hiddenMs = performance.now()
        return found
      } finally {
        for (const { isPoll, stop } of calls.get(identifier) ?? []) if (isPoll) stop.abort()
        if (left.length > 0 || hiddenMs > 0) {
          const now = new AbortController()
          const ending = endAgain(identifier, left, hiddenMs, work, now.signal).finally(() =>
            again.delete(ending),
          )
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
