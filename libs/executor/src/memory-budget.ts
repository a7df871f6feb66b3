/**
 * The memory that all sandboxes of this worker may use together, as a fair semaphore in bytes over their limits.
 * A full budget makes executions wait, never fail: first come, first served, so a large request is not starved by
 * small ones that would still fit. Waiters are bounded by the worker's slots (each execution waits at most once).
 */
import { ProvisioningFailure } from './provisioning-failure.ts'

const MiB = 1024 * 1024

export interface MemoryLease extends Disposable {
  readonly bytes: number
  /** Makes the release wait for `work` to settle: a sandbox that is not proven gone still holds its memory. */
  holdUntil(work: Promise<unknown>): void
}

export interface MemoryBudget {
  readonly totalBytes: number
  readonly usedBytes: number
  /** Executions that wait for memory now. */
  readonly waiting: number
  /**
   * Waits for its turn. Rejects with the signal's reason when that aborts first, and with a provisioning failure
   * when `bytes` is more than the whole budget, which no wait could cure.
   */
  acquire(bytes: number, signal: AbortSignal): Promise<MemoryLease>
  /** Takes `bytes` at once or not at all; for warm slots, which must not overtake a waiting execution. */
  tryAcquire(bytes: number): MemoryLease | null
  /** Calls `listener` with what is missing whenever an execution begins to wait: warm slots and idle cells then let go. */
  onPressure(listener: (missingBytes: number) => void): void
  /** Calls `listener` whenever the last one that waited has got its memory, or has given up: more may be taken. */
  onRoom(listener: () => void): void
}

interface Waiter {
  bytes: number
  grant(lease: MemoryLease): void
}

/** Creates a budget of `totalBytes`. */
export function createMemoryBudget(totalBytes: number): MemoryBudget {
  let usedBytes = 0
  const waiters = new Set<Waiter>()
  const pressed: ((missingBytes: number) => void)[] = []
  const roomy: (() => void)[] = []

  const fits = (bytes: number) => usedBytes + bytes <= totalBytes

  function take(bytes: number): MemoryLease {
    usedBytes += bytes
    const holds: Promise<unknown>[] = []
    let released = false
    const release = () => {
      usedBytes -= bytes
      admitWaiters()
    }
    return {
      bytes,
      holdUntil: (work) => void holds.push(work),
      [Symbol.dispose]() {
        if (released) return
        released = true
        if (holds.length === 0) release()
        else void Promise.allSettled(holds).then(release)
      },
    }
  }

  function leave(waiter: Waiter): void {
    waiters.delete(waiter)
    if (waiters.size === 0) for (const listener of roomy) listener()
  }

  function admitWaiters(): void {
    for (const waiter of waiters) {
      if (!fits(waiter.bytes)) return
      const lease = take(waiter.bytes)
      leave(waiter)
      waiter.grant(lease)
    }
  }

  return {
    totalBytes,
    get usedBytes() {
      return usedBytes
    },
    get waiting() {
      return waiters.size
    },
    onPressure: (listener) => void pressed.push(listener),
    onRoom: (listener) => void roomy.push(listener),
    tryAcquire: (bytes) => (waiters.size === 0 && fits(bytes) ? take(bytes) : null),
    async acquire(bytes, signal) {
      signal.throwIfAborted()
      if (bytes > totalBytes) throw overBudget(bytes, totalBytes)
      if (waiters.size === 0 && fits(bytes)) return take(bytes)
      return await new Promise<MemoryLease>((resolve, reject) => {
        const onAbort = () => {
          leave(waiter)
          reject(signal.reason)
          admitWaiters()
        }
        const waiter: Waiter = {
          bytes,
          grant(lease) {
            signal.removeEventListener('abort', onAbort)
            resolve(lease)
          },
        }
        waiters.add(waiter)
        signal.addEventListener('abort', onAbort, { once: true })
        const missing = usedBytes + bytes - totalBytes
        for (const listener of pressed) listener(missing)
      })
    },
  }
}

function overBudget(bytes: number, totalBytes: number): ProvisioningFailure {
  return new ProvisioningFailure(
    'memory_budget_exceeded',
    `The execution asks for ${Math.ceil(bytes / MiB)} MiB of memory, but this worker may use ` +
      `${Math.floor(totalBytes / MiB)} MiB in all. Lower limits.memory_mib, or raise the worker's memory budget.`,
  )
}
