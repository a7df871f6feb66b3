/**
 * Ends sessions so that they stay ended: an identifier without a session silently gets one, so nothing may come after the end that asks
 * for anything.
 *
 *   calls on their way ──arrived, or for long on their way──▶ end ──▶ over: no further call is made
 *                                                                └─some have no answer yet──▶ when they have: end again
 */
import { unlessAborted } from '@cofferdam/contract'

/** A call that is on its way for so long has come, or takes more than the executor waits for an end (5 s). */
const ARRIVES_MS = 3000
/** Ends of the last hours: what is asked again after one is asked within minutes. */
const REMEMBERED_MAX = 10_000

interface UnderWay {
  /** Held open by the other side: it came to its session long ago, and ends with it. */
  isPoll: boolean
  stop: AbortController
  sinceMs: number
  settled: Promise<unknown>
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
  /** Resolves when nothing is to be ended again. */
  idle(): Promise<void>
}

/** `onUnended` hears why a session that was begun anew by a late call could not be ended. */
export function createEndingSessions(
  onUnended: (identifier: string, error: unknown) => void,
): EndingSessions {
  const underWay = new Map<string, Set<UnderWay>>()
  const over = new Set<string>()
  const late = new Set<Promise<void>>()

  function remember(identifier: string): void {
    over.add(identifier)
    const [oldest] = over
    if (over.size > REMEMBERED_MAX && oldest !== undefined) over.delete(oldest)
  }

  /** Not before the last of them is answered could one still begin a session. */
  function endAgain(identifier: string, calls: readonly UnderWay[], work: () => Promise<unknown>): void {
    const again = Promise.all(calls.map(({ settled }) => settled))
      .then(work)
      .then(
        () => undefined,
        (error: unknown) => onUnended(identifier, error),
      )
      .finally(() => late.delete(again))
    late.add(again)
  }

  return {
    begin: (identifier) => void over.delete(identifier),
    follow(identifier, { isPoll, stop, answer }) {
      const all = underWay.get(identifier) ?? new Set()
      const settled = answer.catch(() => undefined)
      const call: UnderWay = { isPoll, stop, sinceMs: performance.now(), settled }
      underWay.set(identifier, all.add(call))
      void settled.then(() => {
        all.delete(call)
        if (all.size === 0 && underWay.get(identifier) === all) underWay.delete(identifier)
      })
    },
    isOver: (identifier) => over.has(identifier),
    async end(identifier, work) {
      remember(identifier)
      const all = [...(underWay.get(identifier) ?? [])]
      const calls = all.filter(({ isPoll }) => !isPoll)
      await Promise.all(calls.map(arrived))
      const open = calls.filter((call) => underWay.get(identifier)?.has(call) === true)
      try {
        return await work()
      } finally {
        for (const { isPoll, stop } of all) if (isPoll) stop.abort()
        if (open.length > 0) endAgain(identifier, open, work)
      }
    },
    async idle() {
      await Promise.all(late)
    },
  }
}

async function arrived({ sinceMs, settled }: UnderWay): Promise<void> {
  const leftMs = Math.max(0, Math.ceil(ARRIVES_MS - (performance.now() - sinceMs)))
  await unlessAborted(settled, AbortSignal.timeout(leftMs)).catch(() => undefined)
}
