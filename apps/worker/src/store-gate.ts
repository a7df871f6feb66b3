/**
 * Keeps a worker from claiming executions until its store answers, has the right schema and can be written,
 * because each execution must be recorded. A later outage does not stop the worker: records then wait in the
 * Redis outbox.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Store } from '@cofferdam/store'
import type { Logger } from '@cofferdam/telemetry'

/** Pause between two checks of the store. */
const AGAIN_MS = 1000

export interface StoreGate extends AsyncDisposable {
  /** Why nothing is claimed yet. Null once the store is ready. */
  readonly closedBy: string | null
}

/** Checks the store until it is ready, then calls `onOpen` once. Resolves after the first check. */
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
