/** Caches the indexes of one execution: an install asks for an index and shortly after for its files. */

/** Enough for the files of an install in flight. A dropped index is loaded again. */
const MAX_KEPT = 64
/** Bytes per cache. An execution that installs has up to three caches: two for npm and one for PyPI. */
const MAX_KEPT_BYTES = 16 * 2 ** 20

export interface Weighed<T> {
  value: T
  /** Length of the page that was read (PyPI) or of the JSON that is sent (npm). */
  bytes: number
}

/** Answers from the cache or by `load`. Two callers of one key load once. A failure is not cached. */
export function keepRecent<T>(load: (key: string) => Promise<Weighed<T>>): (key: string) => Promise<T> {
  const kept = new Map<string, { loading: Promise<Weighed<T>>; bytes: number }>()
  let total = 0

  const drop = (key: string): void => {
    total -= kept.get(key)?.bytes ?? 0
    kept.delete(key)
  }
  return async (key) => {
    const known = kept.get(key)
    if (known !== undefined) return (await known.loading).value
    const entry = { loading: load(key), bytes: 0 }
    kept.set(key, entry)
    try {
      const { value, bytes } = await entry.loading
      if (kept.get(key) === entry) {
        entry.bytes = bytes
        total += bytes
      }
      for (const oldest of kept.keys()) {
        if (kept.size <= MAX_KEPT && total <= MAX_KEPT_BYTES) break
        drop(oldest)
      }
      return value
    } catch (error) {
      if (kept.get(key) === entry) drop(key)
      throw error
    }
  }
}
