/** The registry of sessions in memory, for tests of backends: one holder at a time, fences and epochs that only rise. */
import {
  CofferdamError,
  type SessionEntry,
  type SessionInfo,
  type SessionName,
  type SessionRegistry,
  type WorkerId,
} from '@cofferdam/contract'

interface Kept {
  name: SessionName
  entry: SessionEntry | null
  epoch: number
  fence: number
  holder: WorkerId | null
  lost: AbortController | null
  waiters: (() => void)[]
}

export interface MemorySessions extends SessionRegistry {
  /** Takes the lease from whoever holds it, as Redis does when it was not renewed in time. */
  expire(name: SessionName): void
}

/** Creates an empty one. */
export function memorySessions(): MemorySessions {
  const all = new Map<string, Kept>()
  const keyOf = ({ tenantId, backend, key }: SessionName): string => JSON.stringify([tenantId, backend, key])

  function of(name: SessionName): Kept {
    const found = all.get(keyOf(name)) ?? {
      name,
      entry: null,
      epoch: 0,
      fence: 0,
      holder: null,
      lost: null,
      waiters: [],
    }
    all.set(keyOf(name), found)
    return found
  }
  function free(kept: Kept): void {
    kept.holder = kept.lost = null
    kept.waiters.shift()?.()
  }
  const infoOf = ({ name, entry, holder }: Kept): SessionInfo[] =>
    entry === null ? [] : [{ ...name, ...entry, holder, owner: null }]

  return {
    async claim(name, holder, { waitMs, signal }) {
      signal.throwIfAborted()
      const kept = of(name)
      while (kept.holder !== null) {
        const { promise, resolve, reject } = Promise.withResolvers<undefined>()
        const wake = (): void => resolve(undefined)
        const onAbort = (): void => reject(signal.reason)
        const late = setTimeout(() => reject(new CofferdamError('conflict')), waitMs)
        kept.waiters.push(wake)
        signal.addEventListener('abort', onAbort, { once: true })
        try {
          await promise
        } finally {
          clearTimeout(late)
          signal.removeEventListener('abort', onAbort)
          kept.waiters = kept.waiters.filter((waiter) => waiter !== wake)
        }
      }
      kept.fence += 1
      const fence = kept.fence
      const lost = new AbortController()
      kept.holder = holder
      kept.lost = lost
      const write = async (entry: SessionEntry | null): Promise<void> => {
        if (kept.fence !== fence || lost.signal.aborted) throw new CofferdamError('fenced')
        kept.epoch = Math.max(kept.epoch, entry?.epoch ?? 0)
        kept.entry = entry
      }
      return {
        name,
        fence,
        entry: kept.entry,
        isOverdue: (kept.entry?.idleAtMs ?? Infinity) <= Date.now(),
        nextEpoch: kept.epoch + 1,
        signal: lost.signal,
        keep: (entry) => write(entry),
        forget: () => write(null),
        async [Symbol.asyncDispose]() {
          if (kept.lost === lost) free(kept)
        },
      }
    },
    async list(tenantId) {
      const sessions = [...all.values()].flatMap((kept) =>
        kept.name.tenantId === tenantId ? infoOf(kept) : [],
      )
      return { sessions, cursor: null }
    },
    async find(name) {
      return infoOf(of(name))[0] ?? null
    },
    async overdue(backend, limit) {
      return [...all.values()]
        .filter(
          ({ name, entry, holder }) =>
            name.backend === backend && holder === null && (entry?.idleAtMs ?? Infinity) <= Date.now(),
        )
        .slice(0, limit)
        .map(({ name }) => name)
    },
    expire(name) {
      const kept = of(name)
      const { lost } = kept
      free(kept)
      lost?.abort(new CofferdamError('fenced'))
    },
  }
}
