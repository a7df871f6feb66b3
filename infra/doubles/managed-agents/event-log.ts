/** A session's history, its open streams, and waits for what happens next. */
import type { BetaManagedAgentsSessionEvent } from '@anthropic-ai/sdk/resources/beta/sessions/events'

export type SessionEvent = BetaManagedAgentsSessionEvent
export type Reader = (batch: readonly SessionEvent[]) => void

/** How long the waits of a test last before they fail. */
const PATIENCE_MS = 15_000

export class EventLog {
  readonly events: SessionEvent[] = []
  /** Why the agent's program failed. Waits are rejected with it. */
  failure: Error | null = null
  readonly #readers = new Set<Reader>()
  readonly #waiting = new Set<() => void>()

  /** Number of subscribers: open event streams, and the chat of a terminal. */
  get streams(): number {
    return this.#readers.size
  }

  /** Adds events to the history and sends them to every subscriber, as one batch. */
  append(...batch: SessionEvent[]): void {
    this.events.push(...batch)
    for (const read of this.#readers) read(batch)
    this.wake()
  }

  /** Sends the events from now on to `read`. Returns the function that ends it. */
  subscribe(read: Reader): () => void {
    this.#readers.add(read)
    this.wake()
    return () => {
      this.#readers.delete(read)
      this.wake()
    }
  }

  /**
   * Resolves when `holds` returns true. Rejects after `patienceMs`, naming the last events, or when the
   * agent's program fails.
   */
  async until(what: string, holds: () => boolean, patienceMs = PATIENCE_MS): Promise<void> {
    const giveUp = AbortSignal.timeout(patienceMs)
    while (!holds()) {
      if (this.failure !== null) throw this.failure
      if (giveUp.aborted) throw new Error(`waited ${patienceMs} ms for ${what}. Last events: ${this.#tail()}`)
      await this.change(giveUp)
    }
  }

  /** Resolves at the next change, or when the signal aborts. */
  async change(signal?: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const wake = (): void => resolve(undefined)
    this.#waiting.add(wake)
    signal?.addEventListener('abort', wake, { once: true })
    await promise
    signal?.removeEventListener('abort', wake)
    this.#waiting.delete(wake)
  }

  /** Makes every wait check its condition again. */
  wake(): void {
    for (const wake of this.#waiting) wake()
  }

  #tail(): string {
    return (
      this.events
        .slice(-6)
        .map(({ type }) => type)
        .join(', ') || 'none'
    )
  }
}
