/**
 * The work queue of one environment. A poll hands out the item that has waited longest. An item that nobody
 * acknowledges is offered again, to anyone, when the poll's `reclaim_older_than_ms` have passed.
 */
import type { BetaSelfHostedWorkQueueStats } from '@anthropic-ai/sdk/resources/beta/environments/work'
import { WorkItem, type WorkData } from './work-item.ts'

/** A worker counts as polling for this long after its last poll (`BetaSelfHostedWorkQueueStats`). */
const POLLING_MS = 30_000

export interface Poll {
  /** From the header `Anthropic-Worker-ID`. */
  workerId?: string | undefined
  /** 0 answers at once. */
  blockMs: number
  reclaimMs: number
  /** Aborts when the client has gone, so that the queue hands it no item. */
  signal: AbortSignal
}

export class WorkQueue {
  readonly environmentId: string
  readonly items: WorkItem[] = []
  readonly #waiting = new Set<() => void>()
  /** When each worker polled last, in milliseconds. */
  readonly #workers = new Map<string, number>()
  #hasSeenWorkers = false

  constructor(environmentId: string) {
    this.environmentId = environmentId
  }

  enqueue(data: WorkData): WorkItem {
    const item = new WorkItem(this.environmentId, data, () => this.#wake())
    this.items.push(item)
    this.#wake()
    return item
  }

  /** Whether a worker serves the session, or will when it takes the session's queued item. */
  hasLiveItem(sessionId: string): boolean {
    return this.items.some(({ isLive, data }) => isLive && data.type === 'session' && data.id === sessionId)
  }

  /** The next item. Null when none came in time. */
  async poll({ workerId, blockMs, reclaimMs, signal }: Poll): Promise<WorkItem | null> {
    if (workerId !== undefined) this.#seen(workerId)
    const untilMs = Date.now() + blockMs
    while (!signal.aborted) {
      const item = this.#take(reclaimMs)
      if (item !== null) return item
      const leftMs = untilMs - Date.now()
      if (leftMs <= 0) return null
      await this.#change(Math.min(leftMs, this.#nextReclaimMs(reclaimMs)), signal)
    }
    return null
  }

  stats(): BetaSelfHostedWorkQueueStats {
    const queued = this.items.filter(({ state }) => state === 'queued')
    const oldest = queued.map(({ queuedAt }) => queuedAt).toSorted()[0]
    this.#forget()
    return {
      type: 'work_queue_stats',
      depth: queued.filter(({ deliveredAtMs }) => deliveredAtMs === null).length,
      pending: queued.filter(({ deliveredAtMs }) => deliveredAtMs !== null).length,
      oldest_queued_at: oldest ?? null,
      // Null until a worker has sent its ID: the count "requires worker_id to be sent with poll requests".
      workers_polling: this.#hasSeenWorkers ? this.#workers.size : null,
    }
  }

  close(): void {
    for (const item of this.items) item.close()
    this.#wake()
  }

  #seen(workerId: string): void {
    this.#hasSeenWorkers = true
    this.#forget()
    this.#workers.set(workerId, Date.now())
  }

  /** Drops the workers that have not polled for a while. */
  #forget(): void {
    for (const [id, atMs] of this.#workers) if (atMs <= Date.now() - POLLING_MS) this.#workers.delete(id)
  }

  #take(reclaimMs: number): WorkItem | null {
    const nowMs = Date.now()
    const offered = this.items
      .filter(
        ({ state, deliveredAtMs: at }) => state === 'queued' && (at === null || nowMs - at >= reclaimMs),
      )
      .toSorted((a, b) => a.queuedAt.localeCompare(b.queuedAt))
    const item = offered[0]
    if (item === undefined) return null
    item.deliveredAtMs = nowMs
    item.deliveries += 1
    return item
  }

  #nextReclaimMs(reclaimMs: number): number {
    const nowMs = Date.now()
    const waits = this.items.flatMap(({ state, deliveredAtMs: at }) =>
      state === 'queued' && at !== null ? [at + reclaimMs - nowMs] : [],
    )
    return Math.max(1, Math.min(...waits))
  }

  /** Resolves at the next change, after `ms`, or when the client goes. */
  async #change(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const wake = (): void => resolve(undefined)
    this.#waiting.add(wake)
    signal.addEventListener('abort', wake, { once: true })
    const timer = setTimeout(wake, ms)
    await promise
    clearTimeout(timer)
    signal.removeEventListener('abort', wake)
    this.#waiting.delete(wake)
  }

  #wake(): void {
    for (const wake of this.#waiting) wake()
  }
}
