/**
 * One execution's turn in a session that any worker attaches to, the same for all vendors.
 *
 *   claim ─▶ no entry ─promised in turn─▶ started ┐
 *         ├▶ at rest ─▶ attached, in turn ────────┴▶ turn ─at rest─▶ kept
 *         │                                           └─lost, unclean, spent, fenced─▶ ended
 *         └▶ in a turn, too old, cannot attach ─in turn─▶ ended, then as without an entry
 *
 * At its end, a turn always gives the lease back. A worker joins a sandbox only while its entry is at rest.
 * If a worker dies during a turn, nobody joins that sandbox, because its program may still run. A worker
 * marks the entry as in a turn before it ends the sandbox. So a worker that was suspended and replaced
 * meanwhile cannot end the sandbox of the next holder.
 */
import {
  CofferdamError,
  isCofferdamError,
  newSessionId,
  type SandboxSpec,
  type SessionEntry,
  type SessionLease,
  type SessionScope,
} from '@cofferdam/contract'
import { refuseBeginning, runKeeps, type BoundSlot } from '@cofferdam/sandbox/warm'
import type { RemoteSlot } from './remote-slot.ts'
import { atRest, idleMsOf, inTurn, isSpent, isTooOld } from './session-entry.ts'
import type { SessionKeeper } from './session-keeper.ts'

/**
 * Twice the lease of a dead worker, and less than the executor's 60 s for an open. So a caller that waited in
 * vain gets `conflict`, and not a second session of that name from another backend.
 */
const WAIT_MS = 30_000
/**
 * The agent gives up after 13 s (processes.py). The rest of the executor's 20 s for a dispose is for calls to
 * the vendor.
 */
const CLEAN_MS = 14_000

interface Begun<Held> {
  held: Held
  entry: SessionEntry
  idleMs: number
  isFresh: boolean
}

export interface KeptTurn<Held> extends Pick<Begun<Held>, 'held' | 'entry' | 'isFresh'> {
  /** Aborts when the session must not be used any more. */
  readonly revoked: AbortSignal
  /** Always gives the lease back. `isLost`: do not reuse the sandbox. May be repeated after a rejection. */
  end: (isLost: boolean) => Promise<void>
}

/**
 * Throws `conflict` if the session is of another kind or stays held by another worker. Throws
 * `session_not_found` if the execution may not create it, and what the keeper's `start` throws.
 */
export async function takeTurn<Held>(
  keeper: SessionKeeper<Held>,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<KeptTurn<Held>> {
  const name = { tenantId: spec.tenantId, backend: keeper.backend, key: spec.session?.key ?? '' }
  const lease = await keeper.registry.claim(name, spec.owner, { waitMs: WAIT_MS, signal })
  try {
    const bound = AbortSignal.any([signal, lease.signal])
    const begun = (await goOn(keeper, spec, lease, bound)) ?? (await beginAnew(keeper, spec, lease, bound))
    return turnOf(keeper, spec, lease, begun)
  } catch (error) {
    await lease[Symbol.asyncDispose]()
    signal.throwIfAborted()
    throw error
  }
}

/** Null if no session can be continued. */
async function goOn<Held>(
  keeper: SessionKeeper<Held>,
  spec: SandboxSpec,
  lease: SessionLease,
  signal: AbortSignal,
): Promise<Begun<Held> | null> {
  const rested = lease.entry
  if (rested === null) return null
  if (rested.turn === undefined && !isTooOld(rested, spec, keeper.limits)) {
    keeper.refuse(rested, spec)
    const idleMs = idleMsOf(spec, rested, keeper.limits)
    let entry = rested
    async function begins(change: Partial<SessionEntry> = {}): Promise<void> {
      entry = { ...inTurn(entry, spec, keeper.startMs), ...change }
      await lease.keep(entry)
    }
    const held = await keeper.attach({ spec, lease, entry, idleMs, signal, begins })
    if (held !== null) return { held, entry, idleMs, isFresh: false }
  }
  await lease.keep(inTurn(rested, spec))
  await keeper.end(rested)
  await lease.forget()
  return null
}

async function beginAnew<Held>(
  keeper: SessionKeeper<Held>,
  spec: SandboxSpec,
  lease: SessionLease,
  signal: AbortSignal,
): Promise<Begun<Held>> {
  refuseBeginning(spec)
  signal.throwIfAborted()
  const epoch = lease.nextEpoch
  const idleMs = idleMsOf(spec, null, keeper.limits)
  const nowMs = Date.now()
  const blank: SessionEntry = {
    ...(await keeper.promise({ spec, idleMs, key: lease.name.key, epoch })),
    sessionId: newSessionId(),
    scope: spec.session?.scope ?? 'files',
    epoch,
    createdAtMs: nowMs,
    usedAtMs: nowMs,
    idleAtMs: nowMs,
  }
  const entry = inTurn(blank, spec, keeper.startMs)
  await lease.keep(entry)
  try {
    const { held, handle } = await keeper.start({ spec, lease, entry, idleMs, signal })
    return { held, entry: { ...entry, handle }, idleMs, isFresh: true }
  } catch (error) {
    await keeper
      .end(entry)
      .then(() => lease.forget())
      .catch((cause: unknown) =>
        keeper.logger.warn(about(keeper, entry, cause), 'a session that did not start is left to the reaper'),
      )
    throw error
  }
}

function turnOf<Held>(
  keeper: SessionKeeper<Held>,
  spec: SandboxSpec,
  lease: SessionLease,
  { held, entry, idleMs, isFresh }: Begun<Held>,
): KeptTurn<Held> {
  let ending: Promise<void> | null = null

  async function end(isLost: boolean): Promise<void> {
    try {
      if (isLost || isSpent(entry, keeper.limits) || !(await isKept())) await discard()
    } finally {
      await lease[Symbol.asyncDispose]()
    }
  }
  async function isKept(): Promise<boolean> {
    try {
      const { idleAtMs, ...change } = await keeper.rest(held, { spec, entry, idleMs })
      const rested = atRest({ ...entry, ...change }, idleMs, keeper.limits)
      await lease.keep({ ...rested, idleAtMs: idleAtMs ?? rested.idleAtMs }).catch(refuseUnwritten)
      return true
    } catch (error) {
      keeper.logger.warn(about(keeper, entry, error), 'a session could not be kept and is ended')
      return false
    }
  }
  function refuseUnwritten(error: unknown): void {
    // `fenced`: the write did not take effect, so no later holder joins this sandbox, and it can be ended.
    if (isCofferdamError(error) && error.code === 'fenced') throw error
    // Otherwise the write may have taken effect. The next holder or the reaper acts on whichever entry is
    // there.
    keeper.logger.warn(about(keeper, entry, error), 'a session may begin anew')
  }
  async function discard(): Promise<void> {
    await keeper.destroy(held)
    // `fenced` means that the name and its entry belong to another holder.
    await lease.forget().catch(() => undefined)
  }

  return {
    held,
    entry,
    isFresh,
    revoked: lease.signal,
    end: (isLost) =>
      (ending ??= end(isLost).catch((error: unknown) => {
        ending = null
        throw error
      })),
  }
}

const about = ({ backend }: { backend: string }, { sessionId }: SessionEntry, err: unknown) => ({
  err,
  backend,
  session: sessionId,
})

/** Binds the session's slot to its turn. The channel closes when the lease is lost. */
export function bindTurn(turn: Omit<KeptTurn<unknown>, 'held'>, slot: RemoteSlot): BoundSlot<RemoteSlot> {
  const { entry, isFresh, revoked } = turn
  const onLost = (): void => slot.session.close(new CofferdamError('fenced'))
  revoked.addEventListener('abort', onLost, { once: true })
  if (revoked.aborted) onLost()
  return {
    slot,
    warm: !isFresh,
    session: { id: entry.sessionId, fresh: isFresh || entry.scope === 'none' },
    ...runKeeps(entry.scope),
    programEnded: () => undefined,
    end: (isLost) => turn.end(isLost),
  }
}

/** Proves that the slot holds only what the session keeps, and closes the channel: the agent then waits. */
export async function cleanAndClose(slot: RemoteSlot, scope: SessionScope): Promise<void> {
  await slot.clean(scope, AbortSignal.timeout(CLEAN_MS))
  slot.session.close()
}
