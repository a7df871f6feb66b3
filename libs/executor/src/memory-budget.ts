/**
 * The memory that all sandboxes of this worker may use together: a fair semaphore over the bytes of their
 * limits. If it is full, executions wait, first come, first served, so small requests cannot starve a large
 * one. The worker's slots bound how many wait, because each execution waits at most once.
 */
import { ProvisioningFailure } from './provisioning-failure.ts'

const MiB = 1024 * 1024

export interface MemoryLease extends Disposable {
  readonly bytes: number
  /** Delays the release until `work` settles, because a sandbox that may still exist holds its memory. */
  holdUntil(work: Promise<unknown>): void
}

export interface MemoryBudget {
  readonly totalBytes: number
  readonly usedBytes: number
  readonly waiting: number
  /** Waits for its turn. Rejects with the signal's reason, or if `bytes` exceeds the whole budget. */
  acquire(bytes: number, signal: AbortSignal): Promise<MemoryLease>
  /** Takes `bytes` at once or returns null. For warm slots, which must not overtake a waiting execution. */
  tryAcquire(bytes: number): MemoryLease | null
  /**
   * Calls `listener` with the missing bytes when an execution starts to wait, so that warm slots free memory.
   */
  onPressure(listener: (missingBytes: number) => void): void
  /** Calls `listener` when the last waiting execution has its memory or has given up. */
  onRoom(listener: () => void): void
}

interface Waiter {
  bytes: number
  grant(lease: MemoryLease): void
}

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
      `${Math.floor(totalBytes / MiB)} MiB in all. Lower limits.memory_mib, or raise the ` +
      "worker's memory budget.",
  )
}
