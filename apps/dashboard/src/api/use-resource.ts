/** Loads something for a component, again at intervals while the page is seen, and keeps the last answer. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { asFailure, type Failure } from './failure.ts'

export interface Resource<T> {
  /** The last answer. Null before the first. It stays while a later call fails. */
  data: T | null
  /** Why the last call failed. Null if it did not. */
  failure: Failure | null
  /** Loads again now. */
  reload: () => void
}

/** After failures the interval doubles up to this. */
const MOST_BACKOFF_MS = 30_000

/**
 * `load` is called at once, again when `of` changes, and `everyMs` milliseconds after each answer (null:
 * again only after a failure). A hidden page loads nothing; it loads at once when it is seen again. A change
 * of `of` drops what was loaded for another value.
 */
export function useResource<T>(
  of: string,
  load: (signal: AbortSignal) => Promise<T>,
  everyMs: number | null = null,
): Resource<T> {
  const [state, setState] = useState<{ of: string; data: T | null; failure: Failure | null }>({
    of,
    data: null,
    failure: null,
  })
  const [count, setCount] = useState(0)
  const latest = useRef(load)
  latest.current = load

  useEffect(() => {
    const ended = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let failures = 0
    let isWaiting = false
    const run = async (): Promise<void> => {
      isWaiting = false
      try {
        const data = await latest.current(ended.signal)
        failures = 0
        if (!ended.signal.aborted) setState({ of, data, failure: null })
      } catch (error) {
        failures += 1
        if (!ended.signal.aborted)
          setState((before) => ({
            of,
            data: before.of === of ? before.data : null,
            failure: asFailure(error),
          }))
      }
      if (ended.signal.aborted || (everyMs === null && failures === 0)) return
      const pause = Math.min((everyMs ?? 2000) * 2 ** Math.min(failures, 5), MOST_BACKOFF_MS)
      isWaiting = true
      timer = setTimeout(
        () => {
          if (!document.hidden) void run()
        },
        Math.max(pause, everyMs ?? 0),
      )
    }
    const seen = (): void => {
      if (document.hidden || !isWaiting) return
      clearTimeout(timer)
      void run()
    }
    document.addEventListener('visibilitychange', seen)
    void run()
    return () => {
      ended.abort()
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', seen)
    }
  }, [of, count, everyMs])

  const isOther = state.of !== of
  return {
    data: isOther ? null : state.data,
    failure: isOther ? null : state.failure,
    reload: () => setCount((before) => before + 1),
  }
}
