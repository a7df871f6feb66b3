/**
 * Collects records and writes them together.
 *
 *   add ─> waiting ─(nothing is being written | 100 waiting | 5 ms passed)─> written ─> resolved
 *             │                                                            ├─ one is bad: halves, down to the bad one
 *             └──── the store is away: everything waiting is rejected <────┘
 *
 * With nothing in flight a record leaves at once: the 5 ms are only waited for under load.
 */
import { CofferdamError } from '@cofferdam/contract'
import { failureOf, toStoreError } from './store-errors.ts'

/** queue-caps-audit.md §5.3: 100 rows a call reach 73% of the rate of 1,000 at a tenth of the latency. */
const MAX_ROWS = 100
const MAX_WAIT_MS = 5
/** One batch at the server, one on its way. */
const MAX_IN_FLIGHT = 2
/** A quarter second of the highest measured rate; at 64 KiB a record it is 128 MiB. */
const MAX_WAITING = 2000

export interface RecordBatcher<T> {
  /** True when this call wrote the record; false when it was there. Rejects with a `CofferdamError`. */
  add(key: string, item: T): Promise<boolean>
  /** Resolves when everything that was added has been written or rejected. */
  idle(): Promise<void>
}

interface Waiting<T> {
  key: string
  item: T
  resolve(inserted: boolean): void
  reject(error: CofferdamError): void
}

/** What became of one batch; `ms` from being sent to its answer. */
export interface WrittenBatch {
  rows: number
  ms: number
  ok: boolean
}

/** `write` gets items with distinct keys and returns the keys that were new. `onBatch` hears of each try. */
export function createRecordBatcher<T>(
  write: (items: readonly T[]) => Promise<Set<string>>,
  onBatch: (batch: WrittenBatch) => void = () => {},
): RecordBatcher<T> {
  let waiting: Waiting<T>[] = []
  let inFlight = 0
  let timer: NodeJS.Timeout | null = null
  let idlers: (() => void)[] = []

  function pump(force: boolean): void {
    while (waiting.length > 0 && inFlight < MAX_IN_FLIGHT) {
      if (!force && inFlight > 0 && waiting.length < MAX_ROWS) break
      const batch = waiting.splice(0, MAX_ROWS)
      inFlight += 1
      void settle(batch).finally(() => {
        inFlight -= 1
        pump(false)
        if (inFlight === 0 && waiting.length === 0) {
          for (const idler of idlers) idler()
          idlers = []
        }
      })
    }
    if (waiting.length > 0) timer ??= setTimeout(tick, MAX_WAIT_MS)
  }

  function tick(): void {
    timer = null
    pump(true)
  }

  async function settle(batch: readonly Waiting<T>[]): Promise<void> {
    // The same attempt twice in a batch: the first may be new, the others are not.
    const first = new Map<string, Waiting<T>>()
    for (const one of batch) if (!first.has(one.key)) first.set(one.key, one)
    const sentAtMs = performance.now()
    const answered = (ok: boolean) => onBatch({ rows: first.size, ms: performance.now() - sentAtMs, ok })
    try {
      const inserted = await write([...first.values()].map((one) => one.item))
      answered(true)
      for (const one of batch) one.resolve(first.get(one.key) === one && inserted.has(one.key))
    } catch (error) {
      answered(false)
      await fail(batch, error)
    }
  }

  async function fail(batch: readonly Waiting<T>[], error: unknown): Promise<void> {
    if (failureOf(error) !== 'data') {
      const failure = toStoreError(error, 'recording an attempt')
      // Those behind would only wait for the same silence.
      for (const one of [...batch, ...waiting.splice(0)]) one.reject(failure)
    } else if (batch.length === 1) {
      batch[0]?.reject(toStoreError(error, 'the record of an attempt'))
    } else {
      const middle = Math.ceil(batch.length / 2)
      await settle(batch.slice(0, middle))
      await settle(batch.slice(middle))
    }
  }

  return {
    add(key, item) {
      if (waiting.length >= MAX_WAITING)
        return Promise.reject(
          new CofferdamError('store_unavailable', `The store is behind: ${MAX_WAITING} records wait for it.`),
        )
      return new Promise<boolean>((resolve, reject) => {
        waiting.push({ key, item, resolve, reject })
        pump(false)
      })
    },
    idle() {
      if (inFlight === 0 && waiting.length === 0) return Promise.resolve()
      return new Promise((resolve) => idlers.push(resolve))
    },
  }
}
