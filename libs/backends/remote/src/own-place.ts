/**
 * One of a worker's own sandboxes at a vendor, which is there when its program is sent: what waited may hang by now while its connection
 * stays open, or its vendor may have ended it without a word. So it is asked whether it is well, while its life is set.
 *
 *   taken ──fresh──▶ life set ─────────────────────▶ place
 *     ▲  └──waited─▶ life set, and asked ──answers──▶ place
 *     └── the next one ──silent, gone──┘ ended         (a fresh one that is gone fails the open)
 */
import { CofferdamError, isCofferdamError, unlessAborted, type SandboxSpec } from '@cofferdam/contract'
import type { Place, Warmth } from '@cofferdam/sandbox/warm'
import type { RemoteSlot } from './remote-slot.ts'

/** A waiting agent answers in a millisecond beyond the way to it and back; the rest is for a host or a network that is busy. */
const SILENT_MS = 2_000

/**
 * The place, to live for `lifeMs` from now. As many as wait are tried, for as long as `signal` allows. Rejects like `warmth.take`, with
 * `sandbox_open_failed`, or as setting its life does.
 */
export async function ownPlace(
  warmth: Warmth<RemoteSlot>,
  spec: SandboxSpec,
  lifeMs: number,
  signal: AbortSignal,
): Promise<Place<RemoteSlot>> {
  for (;;) {
    const place = await warmth.take(spec, signal)
    try {
      await Promise.all([place.slot.keep(lifeMs), place.warm ? answers(place.slot) : undefined])
      signal.throwIfAborted()
      return place
    } catch (error) {
      const isLost = isCofferdamError(error) && error.code === 'sandbox_lost'
      if (isLost && place.warm) {
        warmth.abandon(place)
        continue
      }
      await place.end(true)
      throw isLost
        ? new CofferdamError('sandbox_open_failed', 'The sandbox was gone before it was used.', {
            cause: error,
          })
        : error
    }
  }
}

/** Throws `sandbox_lost` for an agent that does not. */
async function answers({ session }: RemoteSlot): Promise<void> {
  const silent = new AbortController()
  // Not before what has come was read: a worker that stood still itself proves nothing.
  const timer = setTimeout(() => setImmediate(() => silent.abort()), SILENT_MS)
  try {
    await unlessAborted(session.usage(), silent.signal)
  } catch (error) {
    throw new CofferdamError('sandbox_lost', 'What waited does not answer.', { cause: error })
  } finally {
    clearTimeout(timer)
  }
}
