/**
 * One execution's turn in a session that any worker attaches to, from its sandbox's start or its attach on.
 *
 *   turn ──ended, and kept──▶ the next holder's ──▶ lease given back
 *     ├──ended, not to be kept; lost──▶ sandbox destroyed, forgotten ──▶ lease given back
 *     └──lease lost──▶ its channel closed: the turn is lost
 */
import { CofferdamError, type SessionEntry, type SessionLease } from '@cofferdam/contract'
import type { Place } from '../warm/index.ts'
import type { RemoteSlot } from './remote-slot.ts'

export interface TurnParts {
  lease: SessionLease
  slot: RemoteSlot
  /** As it was made, or as it rested. */
  entry: SessionEntry
  /** Nothing of an earlier execution is in it. */
  isFresh: boolean
  /** Proves the sandbox clean, lets go of it and writes that down. Throws when the session is to be ended instead. */
  keep(): Promise<void>
  /** Why it is not kept. */
  onUnkept(error: unknown): void
  /** True when the sandbox may be another holder's by now, so that it must stay. Default: never, it is this turn's own. */
  isLeft?(): boolean
}

/** The place of an execution; its end gives the lease back, whatever fails. */
export function sessionTurn(turn: TurnParts): Place<RemoteSlot> {
  const { lease, slot, entry, isFresh } = turn
  const onLost = (): void => slot.session.close(new CofferdamError('fenced'))
  lease.signal.addEventListener('abort', onLost, { once: true })
  if (lease.signal.aborted) onLost()
  let ending: Promise<void> | null = null

  async function end(lost: boolean): Promise<void> {
    try {
      if (lost || !(await isKept())) await discard()
    } finally {
      lease.signal.removeEventListener('abort', onLost)
      await lease[Symbol.asyncDispose]()
    }
  }
  async function isKept(): Promise<boolean> {
    try {
      await turn.keep()
      return true
    } catch (error) {
      turn.onUnkept(error)
      return false
    }
  }
  async function discard(): Promise<void> {
    if (turn.isLeft?.() === true) return
    // Also when the lease is lost: whoever comes next joins no turn that never ended, but would end the same sandbox.
    await slot.destroy()
    // Fenced: the name is another's by now, and so is its entry.
    await lease.forget().catch(() => undefined)
  }

  return {
    slot,
    warm: !isFresh,
    session: { id: entry.sessionId, fresh: isFresh || entry.scope === 'none' },
    keepsInterpreter: entry.scope === 'interpreter',
    settle: () => undefined,
    end: (lost) => (ending ??= end(lost)),
  }
}
