/**
 * Takes a slot of this worker's own at a vendor. A slot that waited in the pool may hang although its
 * connection is open, or its vendor may have ended it silently. So its agent must answer once, while the
 * vendor is told how long the slot is to live.
 *
 *   taken ──fresh──▶ life set ─────────────────────▶ bound
 *     ▲  └──waited─▶ life set, and asked ──answers──▶ bound
 *     └── the next one ──silent, gone──┘ ended         (a fresh one that is gone fails the open)
 */
import {
  CofferdamError,
  isCofferdamError,
  REMOTE_HOST_MIB,
  unlessAborted,
  type SandboxSpec,
} from '@cofferdam/contract'
import type { BoundSlot, WarmDeps, Warmth } from '@cofferdam/sandbox/warm'
import type { RemoteSlot } from './remote-slot.ts'

/** A waiting agent answers within a millisecond plus the network's time; the rest is for busy machines. */
const SILENT_MS = 2_000
const HOST_BYTES = REMOTE_HOST_MIB * 1024 * 1024

/**
 * Adapts `warm` to slots in a vendor's memory: each counts only for the memory that it takes of this worker.
 */
export const remoteWarm = (warm: WarmDeps): WarmDeps => ({
  ...warm,
  memory: {
    tryAcquire: (bytes) => warm.memory.tryAcquire(Math.min(bytes, HOST_BYTES)),
    onPressure: (listener) => warm.memory.onPressure(listener),
  },
})

/**
 * Takes a slot that lives for `lifeMs` from now. Tries all waiting slots while `signal` allows. Rejects like
 * `warmth.take`, with `sandbox_open_failed`, or if its life cannot be set.
 */
export async function takeOwnSlot(
  warmth: Warmth<RemoteSlot>,
  spec: SandboxSpec,
  lifeMs: number,
  signal: AbortSignal,
): Promise<BoundSlot<RemoteSlot>> {
  for (;;) {
    const bound = await warmth.take(spec, signal)
    try {
      await Promise.all([bound.slot.keep(lifeMs), bound.warm ? answers(bound.slot) : undefined])
      signal.throwIfAborted()
      return bound
    } catch (error) {
      const isLost = isCofferdamError(error) && error.code === 'sandbox_lost'
      if (isLost && bound.warm) {
        warmth.abandon(bound)
        continue
      }
      await bound.end(true)
      throw isLost
        ? new CofferdamError('sandbox_open_failed', 'The sandbox was gone before it was used.', {
            cause: error,
          })
        : error
    }
  }
}

/** Throws `sandbox_lost` if the agent does not answer. */
async function answers({ session }: RemoteSlot): Promise<void> {
  const silent = new AbortController()
  // Before giving up, read what has arrived: silence proves nothing if this worker itself was suspended.
  const timer = setTimeout(() => setImmediate(() => silent.abort()), SILENT_MS)
  try {
    await unlessAborted(session.usage(), silent.signal)
  } catch (error) {
    throw new CofferdamError('sandbox_lost', 'What waited does not answer.', { cause: error })
  } finally {
    clearTimeout(timer)
  }
}
