/** The slot of a session that any worker attaches to, for one turn. */
import { CofferdamError, type SessionScope } from '@cofferdam/contract'
import type { BoundSlot } from '@cofferdam/sandbox/warm'
import type { RemoteSlot } from './remote-slot.ts'
import type { KeptTurn } from './take-turn.ts'

/** Below the executor's patience with a dispose (20 s), of which a part is calls to the vendor. */
const CLEAN_MS = 3_500

/** Binds the session's slot to its turn; the slot's channel closes when the lease is lost. */
export function bindTurn(turn: Omit<KeptTurn<unknown>, 'held'>, slot: RemoteSlot): BoundSlot<RemoteSlot> {
  const { entry, isFresh, revoked } = turn
  const onLost = (): void => slot.session.close(new CofferdamError('fenced'))
  revoked.addEventListener('abort', onLost, { once: true })
  if (revoked.aborted) onLost()
  return {
    slot,
    warm: !isFresh,
    session: { id: entry.sessionId, fresh: isFresh || entry.scope === 'none' },
    keepsInterpreter: entry.scope === 'interpreter',
    programEnded: () => undefined,
    end: (isLost) => turn.end(isLost),
  }
}

/** Proves a slot clean of everything but what the session keeps, and closes its channel: the agent waits for the next worker. */
export async function cleanAndClose(slot: RemoteSlot, scope: SessionScope): Promise<void> {
  await slot.clean(scope, AbortSignal.timeout(CLEAN_MS))
  slot.session.close()
}
