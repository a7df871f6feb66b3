/**
 * A session that is kept for the next execution of its name, whichever worker has that: one sandbox whose agent, with the
 * interpreters that it keeps, waits between turns with nobody at the other end of its stream.
 *
 *   claim ─▶ no entry ──────promised─▶ started ─▶ turn ─clean─▶ kept, its agent's greeting beside it ─▶ lease given back
 *         ├▶ kept ───in turn─▶ joined ───────────▶ turn    └unclean, lost, fenced─▶ killed, forgotten
 *         └▶ promised, in turn, too old, gone ─▶ killed, then as without an entry
 *
 * The greeting stands in the entry between turns alone: a turn that never ended, because its worker died, leaves a sandbox
 * that nobody joins, for its program may still run. Nothing in an entry opens a sandbox: its token is asked for with the API key.
 */
import {
  CofferdamError,
  isCofferdamError,
  newSessionId,
  type SandboxSpec,
  type SessionEntry,
  type SessionLease,
  type SessionRegistry,
} from '@cofferdam/contract'
import { languageOf, type GuestReady } from '@cofferdam/guest'
import { claimSession } from '../remote/claim-session.ts'
import type { RemoteSlot } from '../remote/remote-slot.ts'
import { sessionTurn } from '../remote/session-turn.ts'
import type { Place, SlotSpec } from '../warm/index.ts'
import type { ControlApi, Created } from './control-api.ts'
import { joinSlot, killBySlot, startSlot, type StartParts } from './start-slot.ts'

/** When the request does not say how long an idle session is kept: a machine that waits is paid for. */
const IDLE_MS = 60_000
/** The reaper comes every 10 s and may find the service busy; the vendor's own clock is for fleets without one. */
const REAP_MARGIN_MS = 60_000
/** Below the executor's patience with a dispose (5 s), of which a part is two calls. */
const CLEAN_MS = 3_500

export interface TurnParts extends StartParts {
  backend: string
  registry: SessionRegistry
  /** How long the vendor lets a sandbox live beyond a hard deadline. */
  marginMs: number
}

/** Throws `conflict` for a session of other limits or that stays held, `not_found` for files of none, and as `startSlot`. */
export async function takeTurn(
  parts: TurnParts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<Place<RemoteSlot>> {
  const lease = await claimSession(parts.registry, parts.backend, spec, signal)
  try {
    const bound = AbortSignal.any([signal, lease.signal])
    const { entry } = lease
    if (entry !== null) {
      const slot = await join(parts, spec, lease, entry, bound)
      if (slot !== null) return turn(parts, spec, lease, { slot, entry, isFresh: false })
      await endKept(parts.api, entry.handle)
      await lease.forget()
    }
    if (spec.program.type === 'files') throw new CofferdamError('not_found', 'There is no such session.')
    return turn(parts, spec, lease, { ...(await begin(parts, spec, lease, bound)), isFresh: true })
  } catch (error) {
    await lease[Symbol.asyncDispose]()
    signal.throwIfAborted()
    throw error
  }
}

/** Kills what an entry's handle names; true when something was there. */
export async function endKept(api: ControlApi, handle: SessionEntry['handle']): Promise<boolean> {
  const { sandbox, slot } = handle
  if (typeof sandbox === 'string') return await api.kill(sandbox)
  return typeof slot === 'string' && (await killBySlot(api, slot))
}

/** Null when it cannot be joined any more: it is to be ended then. */
async function join(
  parts: TurnParts,
  spec: SandboxSpec,
  lease: SessionLease,
  entry: SessionEntry,
  signal: AbortSignal,
): Promise<RemoteSlot | null> {
  const { sandbox, slot, ready } = entry.handle
  const lifeMs = spec.limits.hard_timeout_ms + parts.marginMs
  const isKept = typeof sandbox === 'string' && typeof slot === 'string' && typeof ready === 'string'
  const leftMs = (entry.expiresAtMs ?? 0) - Date.now()
  // What is done with files takes seconds, and must not cost them.
  const neededMs = spec.program.type === 'files' ? 0 : lifeMs
  if (!isKept || leftMs <= neededMs) return null
  refuseOther(entry, spec)
  let created: Created
  try {
    created = await parts.api.connect(sandbox, Math.min(lifeMs, leftMs), signal)
  } catch (error) {
    if (isLost(error)) return null
    // It was not touched: whoever comes next finds it as it was.
    throw error
  }
  await lease.keep(inTurn(entry))
  try {
    const said = JSON.parse(ready) as GuestReady
    return await joinSlot(parts, slotSpec(spec), { created, slot, ready: said }, signal)
  } catch (error) {
    // Also when nobody waits any more: what was asked of its agent may still be answered, to whoever joins next.
    parts.logger.warn({ err: error, session: entry.sessionId }, 'e2b: a session does not answer and is ended')
    return null
  }
}

async function begin(
  parts: TurnParts,
  spec: SandboxSpec,
  lease: SessionLease,
  signal: AbortSignal,
): Promise<{ slot: RemoteSlot; entry: SessionEntry }> {
  signal.throwIfAborted()
  const nowMs = Date.now()
  // Written first: whoever comes after a worker that dies here finds by its slot what it may have left.
  const promised: SessionEntry = {
    sessionId: newSessionId(),
    scope: spec.session?.scope ?? 'interpreter',
    epoch: lease.nextEpoch,
    handle: { slot: spec.sandboxId, limits: limitsOf(spec) },
    createdAtMs: nowMs,
    usedAtMs: nowMs,
    idleAtMs: nowMs + parts.config.ready_timeout_ms,
    expiresAtMs: nowMs + parts.config.max_life_ms,
  }
  await lease.keep(promised)
  const slot = await startSlot(parts, slotSpec(spec), {}, signal)
  try {
    await slot.keep(spec.limits.hard_timeout_ms + parts.marginMs)
    signal.throwIfAborted()
    const { sandbox = '' } = slot.handle
    const entry = { ...promised, handle: { ...promised.handle, sandbox } }
    await lease.keep(entry)
    return { slot, entry }
  } catch (error) {
    await slot.destroy()
    throw isLost(error)
      ? new CofferdamError('sandbox_open_failed', 'e2b: the sandbox was gone before it was used', {
          cause: error,
        })
      : error
  }
}

function turn(
  parts: TurnParts,
  spec: SandboxSpec,
  lease: SessionLease,
  { slot, entry, isFresh }: { slot: RemoteSlot; entry: SessionEntry; isFresh: boolean },
): Place<RemoteSlot> {
  // One that says nothing, as a look at its files does, leaves the session's own.
  const idleMs = spec.session?.idleMs ?? (isFresh ? IDLE_MS : entry.idleAtMs - entry.usedAtMs)

  async function keep(): Promise<void> {
    await slot.clean(entry.scope, AbortSignal.timeout(CLEAN_MS))
    slot.session.close()
    await slot.keep(Math.min(idleMs + REAP_MARGIN_MS, (entry.expiresAtMs ?? 0) - Date.now()))
    const usedAtMs = Date.now()
    const handle = { ...entry.handle, ready: JSON.stringify(slot.ready) }
    // When that is not known to be written, the next holder may have joined: it, or the reaper, decides by what stands there.
    await lease
      .keep({ ...entry, handle, usedAtMs, idleAtMs: usedAtMs + idleMs })
      .catch((error: unknown) =>
        parts.logger.warn({ err: error, session: entry.sessionId }, 'e2b: a session may begin anew'),
      )
  }

  return sessionTurn({
    lease,
    slot,
    entry,
    isFresh,
    keep,
    onUnkept: (error) =>
      parts.logger.warn(
        { err: error, session: entry.sessionId },
        'e2b: a session could not be kept and is ended',
      ),
  })
}

/** As it stands while a program runs in it. */
function inTurn(entry: SessionEntry): SessionEntry {
  const { ready: _left, ...handle } = entry.handle
  return { ...entry, handle }
}

const isLost = (error: unknown): boolean => isCofferdamError(error) && error.code === 'sandbox_lost'

function slotSpec(spec: SandboxSpec): SlotSpec {
  const { memory_mib, cpus, pids, disk_mib } = spec.limits
  return {
    slotId: spec.sandboxId,
    owner: spec.owner,
    language: languageOf(spec.program),
    preload: [],
    limits: { memory_mib, cpus, pids, disk_mib },
    cell: true,
  }
}

const limitsOf = ({ limits: { memory_mib, cpus, pids, disk_mib } }: SandboxSpec): string =>
  [memory_mib, cpus, pids, disk_mib].join('/')

/** Of its files nothing is started, so limits are not compared. */
function refuseOther(entry: SessionEntry, spec: SandboxSpec): void {
  if (spec.program.type !== 'files' && entry.handle['limits'] !== limitsOf(spec))
    throw new CofferdamError(
      'conflict',
      'The session was opened with other limits (memory_mib, cpus, pids, disk_mib). Ask for the same, or use another session key.',
    )
}
