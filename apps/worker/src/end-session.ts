/** The end of a session that any worker can attach to, for whoever has claimed it: the reaper, or a caller that asks. */
import type { Backend, SessionLease } from '@cofferdam/contract'

/** A vendor that takes longer is asked again. */
const END_MS = 30_000

/** Ends it at its backend, then forgets it. Throws when its end is not known: it stays listed, and overdue in the end. */
export async function endSession(backend: Backend, lease: SessionLease, signal: AbortSignal): Promise<void> {
  if (lease.entry === null) return
  // Nobody joins it from then on. So a holder that stood still and was replaced meanwhile ends nothing that is the next one's.
  if (lease.entry.turn === undefined) await lease.keep({ ...lease.entry, turn: 'ending' })
  const bounded = AbortSignal.any([signal, lease.signal, AbortSignal.timeout(END_MS)])
  await backend.endSession?.(lease.name, lease.entry, bounded)
  await lease.forget()
}
