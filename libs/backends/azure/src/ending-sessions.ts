/**
 * Ends sessions for good. The service creates a session for every unknown identifier. A call that left before
 * the end can arrive after it, because it uses another connection, and would create the session again.
 *
 *   end requested: no further call ──calls in flight answered, or 3 s old──▶ end at the service
 *     └─ a call may still arrive, or a young session was not found ──▶ end again later, perhaps several times
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { unlessAborted } from '@cofferdam/contract'

/** An end waits for a call in flight until the call is this old. A poll of this age has arrived. */
const ARRIVES_MS = 3000
/**
 * How long after a call was lost its session is ended again, in milliseconds. A late call may create a
 * session, which would occupy the pool.
 */
const LATE_MS = [3000, 10_000, 30_000] as const
/** The service may not find a session younger than this, so its answer that there is none proves nothing. */
const YOUNG_MS = 10_000
/** How many ended sessions are remembered. Late calls come within minutes. */
const REMEMBERED_MAX = 10_000

interface Call {
  /** A poll: the service keeps the call open until the agent has something to send. */
  isPoll: boolean
  stop: AbortController
  sinceMs: number
  /** When the call failed without an answer. Null before that, and for a call that was answered. */
  lostMs: number | null
  settled: Promise<void>
}

export interface EndingSessions {
  /**
   * Allows calls to the identifier again. It is used for a second session only if the registry lost its
   * epochs.
   */
  begin(identifier: string): void
  /** The call that began the session was answered, so it exists. */
  began(identifier: string): void
  /** Registers a call that starts now. `stop` aborts it. */
  follow(identifier: string, call: { isPoll: boolean; stop: AbortController; answer: Promise<unknown> }): void
  /** True once its end was requested. A further call would create another session. */
  isOver(identifier: string): boolean
  /**
   * Ends a session with `work`, which resolves to false if there was none. Settles like the first run of
   * `work`.
   */
  end(identifier: string, work: () => Promise<boolean>): Promise<boolean>
  /** Ends each scheduled session once more now, instead of later. Resolves when that is done. */
  settle(): Promise<void>
}

/**
 * Creates the bookkeeping. `onUnended` is called when a repeated end fails. A call whose answer was lost may
 * still arrive and start the session again. `lateMs`: how long after the call the session is ended once more.
 */
export function createEndingSessions(
  onUnended: (identifier: string, error: unknown) => void,
  lateMs: readonly number[] = LATE_MS,
): EndingSessions {
  /** Calls that may still arrive. */
  const calls = new Map<string, Set<Call>>()
  const over = new Set<string>()
  /** Start times of young sessions. */
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
      /** When the service said that a young session does not exist. 0 otherwise. */
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

/**
 * An end does not wait for a poll, which can stay open for long. If the poll is younger than ARRIVES_MS, the
 * end is repeated when the poll is that old.
 */
async function arrived({ isPoll, sinceMs, lostMs, settled }: Call): Promise<void> {
  const leftMs = Math.ceil(ARRIVES_MS - (performance.now() - sinceMs))
  if (isPoll || lostMs !== null || leftMs <= 0) return
  await unlessAborted(settled, AbortSignal.timeout(leftMs)).catch(() => undefined)
}

const mayArrive = ({ isPoll, sinceMs }: Call): boolean => !isPoll || performance.now() - sinceMs < ARRIVES_MS
