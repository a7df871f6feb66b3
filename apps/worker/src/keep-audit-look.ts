/**
 * Has the audit tables looked at every hour, by one worker of the fleet: what was found goes to the log and
 * to the metric.
 */
import type { Retention } from '@cofferdam/store'

const EVERY_MS = 3_600_000
/** Shown in the log; all of them: docs/operations/audit.md. */
const MAX_SHOWN = 10

/** Looks at start and every hour; disposing waits for a look that is under way. */
export function keepAuditLook(deps: {
  retention: Pick<Retention, 'auditFaults'>
  /** Whether it is up to this worker in this round. */
  claim(everyMs: number): Promise<boolean>
  keep(count: number): Promise<void>
  onFaults(this: void, faults: readonly string[]): void
  onError(this: void, error: unknown): void
}): AsyncDisposable {
  const look = async (): Promise<void> => {
    try {
      if (!(await deps.claim(EVERY_MS))) return
      const faults = await deps.retention.auditFaults()
      await deps.keep(faults.length)
      if (faults.length > 0) deps.onFaults(faults.slice(0, MAX_SHOWN))
    } catch (error) {
      deps.onError(error)
    }
  }
  let running = look()
  const timer = setInterval(() => {
    running = look()
  }, EVERY_MS)
  timer.unref()
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await running
    },
  }
}
