/** The hourly upkeep of the audit tables: partitions, and a check for faults. */
import type { Retention } from '@cofferdam/store'
import { repeat } from './periodic.ts'

const EVERY_MS = 3_600_000
/** A check of a bucket lists every object, and the bucket's provider bills each list request. */
const BUCKET_EVERY_MS = 6 * EVERY_MS
/** Faults in one log line. docs/operations/audit.md says how to list all of them. */
const MAX_SHOWN = 10

/**
 * Creates partitions ahead, drops expired ones, and deletes their blobs. Every worker does this, because all
 * of it is idempotent. Only the blobs of a bucket are left to one worker of the fleet.
 */
export const keepRetention = ({
  retention,
  claim,
  onError,
}: {
  retention: Pick<Retention, 'ensurePartitions' | 'dropExpired' | 'isBucket'>
  /** Whether this worker looks at the bucket in this round. */
  claim(this: void, everyMs: number): Promise<boolean>
  onError(this: void, error: unknown): void
}): AsyncDisposable =>
  repeat(
    async () => {
      await retention.ensurePartitions(Date.now())
      const keepBlobs = retention.isBucket && !(await claim(BUCKET_EVERY_MS))
      await retention.dropExpired(Date.now(), { keepBlobs })
    },
    { everyMs: EVERY_MS, onError },
  )

/** Checks the audit tables for faults, in one worker of the fleet. Reports them in the log and a metric. */
export const keepAuditLook = (deps: {
  retention: Pick<Retention, 'auditFaults'>
  /** Whether this worker checks in this round. */
  claim(everyMs: number): Promise<boolean>
  /** Keeps the number of faults for the metric. */
  keep(count: number): Promise<void>
  onFaults(this: void, faults: readonly string[]): void
  onError(this: void, error: unknown): void
}): AsyncDisposable =>
  repeat(
    async () => {
      if (!(await deps.claim(EVERY_MS))) return
      const faults = await deps.retention.auditFaults()
      await deps.keep(faults.length)
      if (faults.length > 0) deps.onFaults(faults.slice(0, MAX_SHOWN))
    },
    { everyMs: EVERY_MS, onError: deps.onError },
  )
