/**
 * Keeps a worker from taking executions before its store answered once, with a schema that fits and room to
 * write: what cannot be recorded must not run. From then on an outage is no reason to stop: records wait in
 * the outbox of Redis.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Store } from '@cofferdam/store'
import type { Logger } from '@cofferdam/telemetry'

/** A store that comes up is noticed this soon. */
const AGAIN_MS = 1000

export interface StoreGate extends AsyncDisposable {
  /** Why nothing is taken yet; null once the store is good. */
  readonly closedBy: string | null
}

/**
 * Asks at once, and again until the store is good; then calls `onOpen`, once. Resolves after the first
 * answer. Disposing stops asking.
 */
export async function openStoreGate(deps: {
  store: Pick<Store, 'check'>
  logger: Logger
  onOpen(): void
}): Promise<StoreGate> {
  const stop = new AbortController()
  let closedBy: string | null = 'the store has not answered yet'

  async function ask(): Promise<void> {
    const why = await deps.store.check().then(
      () => null,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    )
    if (stop.signal.aborted) return
    if (why !== null && why !== closedBy)
      deps.logger.warn({ reason: why }, 'takes nothing until its store is good')
    closedBy = why
    if (why === null) deps.onOpen()
  }

  async function askAgain(): Promise<void> {
    while (closedBy !== null && !stop.signal.aborted) {
      await pause(AGAIN_MS, undefined, { signal: stop.signal }).catch(() => undefined)
      if (!stop.signal.aborted) await ask()
    }
  }

  await ask()
  const asking = askAgain()
  return {
    get closedBy() {
      return closedBy
    },
    async [Symbol.asyncDispose]() {
      stop.abort()
      await asking
    },
  }
}
