/**
 * Opens the sandbox of an execution: a session of its own, or the fleet's session of a name. Any worker can
 * attach to the latter while it holds the lease (remote/take-turn.ts).
 */
import { CofferdamError, type SandboxSpec, type SessionRegistry } from '@cofferdam/contract'
import { bindTurn, type RemoteSlot, takeTurn } from '@cofferdam/backend-remote'
import type { BoundSlot } from '@cofferdam/sandbox/warm'
import { createKeeper, deadlinesOf, slotSpec, type KeeperParts } from './session-keeper.ts'
import { startSlot, type SlotWish } from './start-slot.ts'

export interface TakeParts extends KeeperParts {
  sessions: SessionRegistry | null
}

/**
 * Throws like `startSlot`; `conflict` if the session has other limits or scope, or stays held;
 * `session_not_found` if the execution may not create it.
 */
export async function takeSlot(
  parts: TakeParts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<BoundSlot<RemoteSlot>> {
  if (spec.session === null) return await ownSlot(parts, spec, signal)
  if (parts.sessions === null) throw new CofferdamError('capability_missing')
  const turn = await takeTurn(createKeeper(parts, parts.sessions), spec, signal)
  return bindTurn(turn, turn.held.slot)
}

async function ownSlot(
  parts: TakeParts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<BoundSlot<RemoteSlot>> {
  const handle = { owner: spec.owner, seed: spec.sandboxId }
  const identifier = await parts.identifiers.ofJob(spec.owner, spec.sandboxId)
  const wish: SlotWish = {
    spec: slotSpec(parts, spec),
    identifier,
    handle,
    fence: 0,
    deadlines: deadlinesOf(spec),
    pod: null,
  }
  const { slot } = await startSlot(parts, wish, signal)
  return {
    slot,
    warm: false,
    session: null,
    keepsInterpreter: false,
    programEnded: () => undefined,
    end: () => slot.destroy(),
  }
}
