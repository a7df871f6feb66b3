/**
 * Collects records and writes them in batches.
 *
 *   add ─> waiting ─(no write in flight | 100 waiting)─> written ─> resolved
 *             │      └ under load: and 50 waiting, or     ├─ bad data: retry in halves, to the bad record
 *             │        5 ms since the last answer         │
 *             └──── store unavailable: reject everything that is waiting <──┘
 *
 * A batch costs as much CPU as 20 of its rows (1.8 ms against 0.08 ms, measured), so under load it pays to
 * wait for more records. A single record is written at once.
 */
import { CofferdamError } from '@cofferdam/contract'
import { failureOf, toStoreError, UnansweredError } from './store-errors.ts'

/** Measured: 100 rows per call reach 73% of the rate of 1,000, at a tenth of the latency. */
const MAX_ROWS = 100
/** Enough rows to write without waiting. A row then costs a tenth more than in the largest batch. */
const ENOUGH_ROWS = 50
/** The load is high if the last batch had this many rows: over 1,000 records/s at 4 ms per batch. */
const BUSY_ROWS = 5
/** How long to wait for more rows. 10 ms did not raise the rate of executions. */
const COMPANY_MS = 5
/** One batch at the server, and one full batch on its way. */
const MAX_IN_FLIGHT = 2
/**
 * Records that may wait: those of a quarter of a second at the highest measured rate, and 125 MiB at 64 KiB
 * each.
 */
const MAX_WAITING = 2000

export interface RecordBatcher<T> {
  /** True when this call wrote the record, false when it existed. Rejects with a `CofferdamError`. */
  add(key: string, item: T): Promise<boolean>
  /** Resolves when all added records are written or rejected. */
  idle(): Promise<void>
}

interface Waiting<T> {
  key: string
  item: T
  resolve(inserted: boolean): void
  reject(error: CofferdamError): void
}

/** One written batch. `ms` is the time from sending to the answer. */
export interface WrittenBatch {
  rows: number
  ms: number
  ok: boolean
}

/** `write` gets items with distinct keys and returns the new keys. `onBatch` is called after each try. */
export function createRecordBatcher<T>(
  write: (items: readonly T[]) => Promise<Set<string>>,
  onBatch: (batch: WrittenBatch) => void = () => {},
): RecordBatcher<T> {
  let waiting: Waiting<T>[] = []
  let inFlight = 0
  /** Number of rows of the last batch that was sent, and the time of the last answer to a batch. */
  let lastRows = 0
  let answeredAtMs = 0
  let timer: NodeJS.Timeout | null = null
  let idlers: (() => void)[] = []

  function pump(): void {
    while (waiting.length >= MAX_ROWS && inFlight < MAX_IN_FLIGHT) send()
    if (waiting.length === 0 || inFlight > 0) return
    const companyMs =
      lastRows < BUSY_ROWS || waiting.length >= ENOUGH_ROWS
        ? 0
        : answeredAtMs + COMPANY_MS - performance.now()
    if (companyMs <= 0) send()
    else timer ??= setTimeout(pumpLater, companyMs)
  }

  function send(): void {
    if (timer !== null) clearTimeout(timer)
    timer = null
    const batch = waiting.splice(0, MAX_ROWS)
    inFlight += 1
    lastRows = batch.length
    void settle(batch).finally(() => {
      inFlight -= 1
      answeredAtMs = performance.now()
      pump()
      if (inFlight === 0 && waiting.length === 0) {
        for (const idler of idlers) idler()
        idlers = []
      }
    })
  }

  function pumpLater(): void {
    timer = null
    pump()
  }

  async function settle(batch: readonly Waiting<T>[]): Promise<void> {
    // If an attempt is in the batch twice, only the first can be new.
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
      for (const one of batch) one.reject(failure)
      // The waiting records were not sent. Reject them too, because the store would fail for them in the same
      // way.
      const unsent = toStoreError(
        error instanceof UnansweredError ? error.cause : error,
        'recording an attempt',
      )
      for (const one of waiting.splice(0)) one.reject(unsent)
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
        pump()
      })
    },
    idle() {
      if (inFlight === 0 && waiting.length === 0) return Promise.resolve()
      return new Promise((resolve) => idlers.push(resolve))
    },
  }
}
