/**
 * Where an execution's sandbox comes from: a session at the service for it alone, or the fleet's session of a name, which any worker
 * can attach to while it holds the lease.
 *
 *   claim ──▶ no entry ──fresh, next epoch──▶ turn ──clean──▶ released, kept ──▶ lease given back
 *         └─▶ entry ──attach──▶ turn              └─unclean, lost, fenced──▶ ended at the service, forgotten
 *                 ├─not to be had: ended, then fresh
 *                 └─stopped, or the service is not well: left as it was for the next holder
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
import { languageOf } from '@cofferdam/guest'
import type { Place, SlotSpec } from '../warm/index.ts'
import { claimSession } from '../remote/claim-session.ts'
import type { RemoteSlot } from '../remote/remote-slot.ts'
import { sessionTurn } from '../remote/session-turn.ts'
import { sessionSeed, type Identifiers } from './identifier.ts'
import { endOrWarn, startSlot, type AzureSlot, type SlotParts, type SlotWish } from './start-slot.ts'

/** Below the executor's patience with a dispose (5 s), of which a part is two calls to the service. */
const CLEAN_MS = 3_500
/** An attach that takes so long after its attempt was stopped is given up: the session stays, and may be another one for its next holder. */
const LET_GO_MS = 5_000
const HOUR_MS = 3_600_000
/** Before the end of the hour that is paid for: time for the reaper's tick and the call itself. */
const HOUR_MARGIN_MS = 120_000

export interface PlaceParts extends SlotParts {
  backend: string
  identifiers: Identifiers
  sessions: SessionRegistry | null
  preloads: Readonly<Record<string, readonly string[]>>
}

/** Opens it. Throws like `startSlot`; `conflict` for a session of other limits or scope, or that stays held. */
export async function takePlace(
  parts: PlaceParts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<Place<RemoteSlot>> {
  return spec.session === null ? await ownPlace(parts, spec, signal) : await sessionPlace(parts, spec, signal)
}

/** The session's name at the service, from what a ref or an entry holds. */
export async function identifierOf(
  identifiers: Identifiers,
  handle: Record<string, string | number>,
): Promise<string | null> {
  const { owner, seed } = handle
  if (typeof seed !== 'string' || !/^(sbx_[0-9a-f]{32}|[0-9a-f]{64})$/.test(seed)) return null
  if (owner === undefined) return await identifiers.ofSession(seed)
  return await identifiers.ofJob(owner as SandboxSpec['owner'], seed)
}

async function ownPlace(
  parts: PlaceParts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<Place<RemoteSlot>> {
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
    settle: () => undefined,
    end: () => slot.destroy(),
  }
}

async function sessionPlace(
  parts: PlaceParts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<Place<RemoteSlot>> {
  if (parts.sessions === null) throw new CofferdamError('capability_missing')
  const lease = await claimSession(parts.sessions, parts.backend, spec, signal)
  try {
    const bound = AbortSignal.any([signal, lease.signal])
    const { entry } = lease
    if (entry !== null) {
      refuseOther(entry, spec)
      const again = await attach(parts, spec, lease, entry, bound)
      if (again !== null && bound.aborted) await letGo(parts, again, entry)
      bound.throwIfAborted()
      if (again !== null) return turn(parts, spec, lease, again, entry)
    }
    const { started, fresh } = await renew(parts, spec, lease, bound)
    return turn(parts, spec, lease, started, fresh)
  } catch (error) {
    await lease[Symbol.asyncDispose]()
    signal.throwIfAborted()
    throw error
  }
}

/**
 * Null when the session cannot be had any more, which is then ended: nothing of it may be taken for the next one. What ends the
 * attempt meanwhile ends no session: whose call is on its way finishes it, to be able to give the session back.
 */
async function attach(
  parts: PlaceParts,
  spec: SandboxSpec,
  lease: SessionLease,
  entry: SessionEntry,
  signal: AbortSignal,
): Promise<AzureSlot | null> {
  const { boot, incarnation } = entry.handle
  const identifier = await identifierOf(parts.identifiers, entry.handle)
  if (identifier === null) return null
  using patience = abortedAfter(signal, LET_GO_MS)
  const wish: SlotWish = {
    spec: slotSpec(parts, spec),
    identifier,
    handle: entry.handle,
    fence: lease.fence,
    deadlines: deadlinesOf(spec),
    pod: { boot: String(boot), incarnation: String(incarnation) },
  }
  return await startSlot(parts, wish, patience.signal).catch(async (error: unknown) => {
    signal.throwIfAborted()
    const code = isCofferdamError(error) ? error.code : null
    if (code !== 'backend_unavailable') await endOrWarn(parts, identifier)
    if (code === 'sandbox_lost') return null
    throw error
  })
}

/** Nothing of the attempt reached the session: it is as clean as it was found. */
async function letGo(
  parts: PlaceParts,
  { slot, release }: AzureSlot,
  { scope, sessionId }: SessionEntry,
): Promise<void> {
  slot.session.close()
  await release(scope).catch((error: unknown) =>
    parts.logger.warn(
      { err: error, session: sessionId },
      'azure: a session could not be given back; its next holder makes another',
    ),
  )
}

/** Aborts `ms` after `signal` does, with its reason. */
function abortedAfter(signal: AbortSignal, ms: number): { signal: AbortSignal } & Disposable {
  const late = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const onAbort = (): void => {
    timer = setTimeout(() => late.abort(signal.reason), ms)
  }
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  return {
    signal: late.signal,
    [Symbol.dispose]() {
      signal.removeEventListener('abort', onAbort)
      clearTimeout(timer)
    },
  }
}

async function renew(
  parts: PlaceParts,
  spec: SandboxSpec,
  lease: SessionLease,
  signal: AbortSignal,
): Promise<{ started: AzureSlot; fresh: SessionEntry }> {
  const epoch = lease.nextEpoch
  const seed = sessionSeed(spec.tenantId, lease.name.key, epoch)
  const identifier = await parts.identifiers.ofSession(seed)
  // Written first: whoever comes after a worker that dies here finds what it may have left.
  const now = Date.now()
  const begun: SessionEntry = {
    sessionId: newSessionId(),
    scope: spec.session?.scope ?? 'files',
    epoch,
    handle: { seed, boot: '', incarnation: '', limits: limitsOf(spec) },
    createdAtMs: now,
    usedAtMs: now,
    idleAtMs: now + parts.config.ready_timeout_ms,
    expiresAtMs: now + parts.config.cooldown_ms,
  }
  await lease.keep(begun)
  const wish: SlotWish = {
    spec: slotSpec(parts, spec),
    identifier,
    handle: { seed },
    fence: lease.fence,
    deadlines: deadlinesOf(spec),
    pod: null,
  }
  const started = await startSlot(parts, wish, signal)
  return { started, fresh: { ...begun, handle: { ...begun.handle, ...started.pod } } }
}

function turn(
  parts: PlaceParts,
  spec: SandboxSpec,
  lease: SessionLease,
  { slot, release }: AzureSlot,
  entry: SessionEntry,
): Place<RemoteSlot> {
  const isFresh = entry !== lease.entry
  /** Its turn is over and it is proven clean: from then on the next holder may be in it. */
  let isFree = false

  async function keep(): Promise<void> {
    await slot.clean(entry.scope, AbortSignal.timeout(CLEAN_MS))
    slot.session.close()
    await release(entry.scope)
    isFree = true
    await lease.keep({ ...entry, ...deadlinesAfter(parts, spec, entry, isFresh) })
  }

  return sessionTurn({
    lease,
    slot,
    entry,
    isFresh,
    keep,
    // Its entry stands as it was: the next holder uses it, or the reaper ends it.
    isLeft: () => isFree && lease.signal.aborted,
    onUnkept: (error) =>
      parts.logger.warn(
        { err: error, session: entry.sessionId },
        'azure: a session could not be kept and is ended',
      ),
  })
}

/** From now on: until when it is kept without use, and when the service ends it by itself. */
function deadlinesAfter({ config }: PlaceParts, spec: SandboxSpec, entry: SessionEntry, isFresh: boolean) {
  const now = Date.now()
  // Who says nothing, as a look at its files does, leaves that of the session as it rested; a paid hour is no wish.
  const restedMs = isFresh || config.reap === 'paid-hour' ? config.idle_ms : entry.idleAtMs - entry.usedAtMs
  const idleAtMs = now + (spec.session?.idleMs ?? restedMs)
  const hours = Math.ceil((now - entry.createdAtMs + 1) / HOUR_MS)
  const paidUntilMs = entry.createdAtMs + hours * HOUR_MS - HOUR_MARGIN_MS
  return {
    usedAtMs: now,
    idleAtMs: config.reap === 'paid-hour' ? Math.max(idleAtMs, paidUntilMs) : idleAtMs,
    expiresAtMs: now + config.cooldown_ms,
  }
}

const deadlinesOf = ({ limits }: SandboxSpec) => ({
  softMs: limits.soft_timeout_ms,
  hardMs: limits.hard_timeout_ms,
})

function slotSpec({ preloads }: PlaceParts, spec: SandboxSpec): SlotSpec {
  const language = languageOf(spec.program)
  const { memory_mib, cpus, pids, disk_mib } = spec.limits
  return {
    slotId: spec.sandboxId,
    owner: spec.owner,
    language,
    preload: language === 'python' && spec.preload !== null ? (preloads[spec.preload] ?? []) : [],
    limits: { memory_mib, cpus, pids, disk_mib },
    cell: spec.reuse !== 'job',
  }
}

const limitsOf = ({ limits: { memory_mib, cpus, pids, disk_mib } }: SandboxSpec): string =>
  [memory_mib, cpus, pids, disk_mib].join('/')

/** A session is one place: it cannot have other limits or keep other things for one of its executions. */
function refuseOther(entry: SessionEntry, spec: SandboxSpec): void {
  if (entry.scope !== spec.session?.scope)
    throw new CofferdamError(
      'conflict',
      `The session was opened with scope "${entry.scope}". Use another session key, or the same scope.`,
    )
  if (entry.handle['limits'] !== limitsOf(spec))
    throw new CofferdamError(
      'conflict',
      'The session was opened with other limits (memory_mib, cpus, pids, disk_mib). Ask for the same, or use another session key.',
    )
}
