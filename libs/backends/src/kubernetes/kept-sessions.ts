/**
 * Sessions of the whole fleet: their pod outlives the worker that claimed it, and any worker attaches to it while it holds the
 * session's lease.
 *
 *   lease ──▶ no entry ──▶ entry written ──▶ claim, fresh pod ──┐
 *         ├─▶ at rest ──▶ written as in turn ──▶ attached ──────┴─▶ turn ──clean──▶ given up by us, at rest
 *         │      └─not to be had─┐                                   └─lost, unclean, fenced──▶ claim deleted, forgotten
 *         └─▶ in turn: its worker died ─┴─▶ claim deleted, forgotten ──▶ fresh
 *
 * The entry says `rests` only between turns. So whoever finds another's turn in it never runs anything there: that pod ends with
 * its worker's connection, and here once more by its claim. A holder that lost its lease cannot write the turn, so does
 * not connect; and should it connect all the same, the pod refuses a fence that is not higher than the last.
 */
import {
  CofferdamError,
  newSessionId,
  type SandboxSpec,
  type SessionEntry,
  type SessionLease,
  type SessionRegistry,
} from '@cofferdam/contract'
import type { BackendLogger } from '../deps.ts'
import { claimSession } from '../remote/claim-session.ts'
import type { RemoteSlot } from '../remote/remote-slot.ts'
import { sessionTurn } from '../remote/session-turn.ts'
import type { Place, Preloads } from '../warm/index.ts'
import { noSession, unlike } from '../warm/session-refusals.ts'
import { kindOf, type SlotLimits, type SlotSpec } from '../warm/slot.ts'
import { claimName, claimOf, type Claims } from './claims.ts'
import type { KubernetesConfig } from './config.ts'
import { sessionKey } from './session-keys.ts'
import { attachSlot, startSlot } from './start-slot.ts'

/** Killing, wiping and proving take milliseconds; the executor waits 5 s for the end of a turn. */
const CLEAN_MS = 3_000
/** A pod that listens answers in milliseconds, on a busy node in seconds; then a fresh one is the better place. */
const ATTACH_MS = 10_000
/** Beyond turn and idle time: the worker or the reaper deletes a claim itself, the cluster's clock is for when none does. */
const LIFE_MARGIN_MS = 30_000

export interface KeptParts {
  backend: string
  config: KubernetesConfig
  secretFile: string
  claims: Claims
  registry: SessionRegistry
  preloads: Preloads
  /** How long a session waits for its next execution, when it does not say. */
  idleMs: number
  logger: BackendLogger
}

export interface KeptSessions {
  /** Throws like `startSlot`; `conflict` for a session of other limits or scope, or that stays held; `not_found`. */
  take(spec: SandboxSpec, signal: AbortSignal): Promise<Place<RemoteSlot>>
  /** Ends what an entry names; true when something was there. */
  end(entry: SessionEntry): Promise<boolean>
}

/** A turn that has begun: where, and under which entry. */
interface Begun {
  slot: RemoteSlot
  entry: SessionEntry
  /** How long it waits for its next execution. */
  idleMs: number
  fresh: boolean
}

/** Creates the sessions of one backend. */
export function createKeptSessions(parts: KeptParts): KeptSessions {
  const { claims, config, logger } = parts

  async function take(spec: SandboxSpec, signal: AbortSignal): Promise<Place<RemoteSlot>> {
    const lease = await claimSession(parts.registry, parts.backend, spec, signal)
    try {
      const both = AbortSignal.any([signal, lease.signal])
      return turn(lease, (await goOn(spec, lease, both)) ?? (await beginAnew(spec, lease, both)))
    } catch (error) {
      await lease[Symbol.asyncDispose]()
      signal.throwIfAborted()
      throw error
    }
  }

  /** Null when there is nothing to go on with, which is then ended: nothing of it may be taken for the next one. */
  async function goOn(spec: SandboxSpec, lease: SessionLease, signal: AbortSignal): Promise<Begun | null> {
    const { entry } = lease
    if (entry === null) return null
    if (entry.handle['rests'] === 1) {
      const slot = slotSpec(spec)
      const problem = unlike({ scope: entry.scope, limits: limitsIn(entry) }, spec, slot.limits)
      if (problem !== null) throw new CofferdamError('conflict', problem)
      const attached = await attach(spec, lease, entry, signal)
      if (attached !== null) return attached
    }
    await end(entry)
    await lease.forget()
    return null
  }

  async function attach(
    spec: SandboxSpec,
    lease: SessionLease,
    entry: SessionEntry,
    signal: AbortSignal,
  ): Promise<Begun | null> {
    const claim = claimOf(entry.handle)
    const key = await keyOf(claim ?? '')
    // Its time in the cluster is set by whoever holds it: one that stood still meanwhile would cut the next one's turn short.
    signal.throwIfAborted()
    // As it rests: an execution that says nothing, as a look at its files does, leaves the session's own.
    const idleMs = spec.session?.idleMs ?? entry.idleAtMs - entry.usedAtMs
    const pod = claim === null ? null : await claims.find(claim, lifeOf(spec, idleMs))
    if (pod === null) return null
    const inTurn = { ...entry, ...deadlines(spec, idleMs), handle: { ...entry.handle, rests: 0 } }
    await lease.keep(inTurn)
    const inTime = AbortSignal.any([signal, AbortSignal.timeout(ATTACH_MS)])
    try {
      const slot = await attachSlot(parts, slotSpec(spec), pod, { key, fence: lease.fence }, inTime)
      return { slot, entry: inTurn, idleMs, fresh: false }
    } catch (error) {
      if (signal.aborted) {
        // Nothing was asked of it, so it waits on, whatever it heard of us.
        await lease.keep(entry).catch(() => undefined)
        throw signal.reason
      }
      logger.info({ err: error, session: entry.sessionId }, 'kubernetes: a session begins anew')
      return null
    }
  }

  async function beginAnew(spec: SandboxSpec, lease: SessionLease, signal: AbortSignal): Promise<Begun> {
    // What is done with files only ever finds a session; it makes none.
    if (spec.program.type === 'files') throw noSession()
    const slot = slotSpec(spec)
    const claim = claimName(slot.slotId)
    const key = await keyOf(claim)
    const idleMs = spec.session?.idleMs ?? parts.idleMs
    const waitMs = lifeOf(spec, idleMs)
    const entry: SessionEntry = {
      ...deadlines(spec, idleMs, config.ready_timeout_ms),
      sessionId: newSessionId(),
      scope: spec.session?.scope ?? 'files',
      epoch: lease.nextEpoch,
      handle: { claim, rests: 0, ...slot.limits },
      createdAtMs: Date.now(),
    }
    // Written first: whoever comes after a worker that dies here finds what it may have left.
    await lease.keep(entry)
    const kept = { session: entry.sessionId, key, fence: lease.fence }
    try {
      const started = await startSlot({ claims, config, waitMs }, slot, signal, kept)
      return { slot: started, entry, idleMs, fresh: true }
    } catch (error) {
      await end(entry)
        .then(() => lease.forget())
        .catch((cause: unknown) =>
          logger.warn(
            { err: cause, claim },
            'kubernetes: a session that did not start is left to the reaper',
          ),
        )
      throw error
    }
  }

  function turn(lease: SessionLease, { slot, entry, idleMs, fresh }: Begun): Place<RemoteSlot> {
    async function keep(): Promise<void> {
      await slot.clean(entry.scope, AbortSignal.timeout(CLEAN_MS))
      // From here on its pod waits for the next worker.
      slot.session.close()
      const usedAtMs = Date.now()
      const handle = { ...entry.handle, rests: 1 }
      // When that is not known to be written, whoever comes next, or the reaper, decides by what stands there.
      await lease
        .keep({ ...entry, usedAtMs, idleAtMs: usedAtMs + idleMs, handle })
        .catch((error: unknown) =>
          logger.warn({ err: error, session: entry.sessionId }, 'kubernetes: a session may begin anew'),
        )
    }

    return sessionTurn({
      lease,
      slot,
      entry,
      isFresh: fresh,
      keep,
      onUnkept: (error) =>
        logger.warn(
          { err: error, session: entry.sessionId },
          'kubernetes: a session could not be proven clean and is ended',
        ),
    })
  }

  async function end(entry: SessionEntry): Promise<boolean> {
    const claim = claimOf(entry.handle)
    return claim !== null && (await claims.release(claim))
  }

  const keyOf = (claim: string): Promise<Buffer> => sessionKey(parts.secretFile, config.namespace, claim)

  const slotSpec = (spec: SandboxSpec): SlotSpec => ({
    ...kindOf(spec, parts.preloads),
    slotId: spec.sandboxId,
    owner: spec.owner,
  })

  /** Of a claim: a turn, the wait after it, and the margin. */
  const lifeOf = (spec: SandboxSpec, idleMs: number): number =>
    spec.limits.hard_timeout_ms + idleMs + LIFE_MARGIN_MS

  /** Of an entry whose turn begins now; `moreMs` is what its start may take besides. */
  function deadlines(spec: SandboxSpec, idleMs: number, moreMs = 0) {
    const usedAtMs = Date.now()
    return {
      usedAtMs,
      idleAtMs: usedAtMs + moreMs + spec.limits.hard_timeout_ms + idleMs,
      expiresAtMs: usedAtMs + moreMs + lifeOf(spec, idleMs),
      executionId: spec.executionId,
    }
  }

  return { take, end }
}

/** What a session was opened with; its handle holds them by name. */
function limitsIn({ handle }: SessionEntry): SlotLimits {
  const of = (name: keyof SlotLimits): number => Number(handle[name])
  return { memory_mib: of('memory_mib'), cpus: of('cpus'), pids: of('pids'), disk_mib: of('disk_mib') }
}
