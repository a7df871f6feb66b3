/** Indexes of one execution by package: an install asks for an index first and for its files a moment later. */

/** Enough for the files of an install that is under way; an index that was dropped is asked for again. */
const MAX_KEPT = 64
/** Every execution that installs may hold so much. */
const MAX_KEPT_BYTES = 16 * 2 ** 20

export interface Weighed<T> {
  value: T
  /** Size of the text it was made of. */
  bytes: number
}

/** Answers from memory, or by `load`; two callers of one key load once. A failure is not kept. */
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
