/** Optional fields as zod types them (`?: T | undefined`) and as the store takes them (`?: T`). */

/** The fields of `patch` that have a value. */
export function namedFields<T extends object>(patch: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const named = Object.entries(patch).filter(([, value]) => value !== undefined)
  return Object.fromEntries(named) as { [K in keyof T]?: Exclude<T[K], undefined> }
}
