/**
 * Starts the agent in one session, by any transport.
 *
 *   (first call allocates)──provision──attach──ready──▶ slot     failure or abort: end a new session, throw
 */
import { randomBytes } from 'node:crypto'
import type { Readable, Writable } from 'node:stream'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { agentOptions, createGuestSession, type Kept } from '@cofferdam/sandbox/guest'
import type { BackendDeps, BackendLogger } from '@cofferdam/sandbox/backend'
import { createRemoteSlot, type RemoteSlot, asMissingLanguage } from '@cofferdam/backend-remote'
import { mayRunNode, type SlotSpec } from '@cofferdam/sandbox/warm'
import { openBatchChannel, type BatchDeadlines } from './batch-channel.ts'
import type { AzureConfig } from './config.ts'
import type { Executions } from './dialects.ts'
import { hashOf } from './identifier.ts'
import { createInterpreterSession } from './interpreter-session.ts'
import { askContainer, createPodCalls, type PodCalls } from './pod-calls.ts'
import { openPodChannel, type PodChannel } from './pod-channel.ts'
import type { PoolApi } from './pool-api.ts'
import type { SessionsAtPool } from './sessions-at-pool.ts'

/** A poll blocks other executions of an interpreter session, so a stop waits at most this long. */
const EXECUTED_POLL_MS = 300
const MiB = 1024 * 1024

export interface SlotParts {
  backend: string
  config: AzureConfig
  api: PoolApi
  atPool: SessionsAtPool
  /** Null for a custom container. */
  executions: Executions | null
  logger: BackendLogger
  onLeft: BackendDeps['onLeft']
}

export interface SlotWish {
  spec: SlotSpec
  identifier: string
  /** Stored in the ref and in the registry. The session's identifier can be derived from the handle. */
  handle: Record<string, string | number>
  fence: number
  deadlines: BatchDeadlines
  /** The pod of an existing session, as in `AzureSlot.pod`. */
  pod: { boot: string; incarnation: string } | null
}

/** A session whose agent is ready. */
export interface AzureSlot {
  readonly slot: RemoteSlot
  /** Identifies the session later: the incarnations of the pod and of our folder. */
  readonly pod: { boot: string; incarnation: string }
  /** Releases a clean session without ending it, so that another worker can attach. */
  release: (keep: Kept) => Promise<void>
}

/**
 * Throws `backend_unavailable`, `capability_missing`, `sandbox_open_failed`, `sandbox_lost`, or the reason of
 * `signal`. Before that, it ends the session if `wish.pod` is null, because the session is then new. The
 * caller decides about an existing one.
 */
export async function startSlot(parts: SlotParts, wish: SlotWish, signal: AbortSignal): Promise<AzureSlot> {
  signal.throwIfAborted()
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(parts.config.ready_timeout_ms)])
  try {
    return await reached(parts, wish, inTime)
  } catch (error) {
    if (wish.pod === null) await endOrTell(parts, wish)
    signal.throwIfAborted()
    if (isCofferdamError(error) && OPEN_ERRORS.has(error.code)) throw error
    throw new CofferdamError('sandbox_open_failed', 'azure: the session did not start', { cause: error })
  }
}

/**
 * Ends a session that did not start. If that fails, tells `onLeft` (if set), and the service ends the session
 * after its cooldown.
 */
async function endOrTell(parts: SlotParts, { identifier, handle, spec }: SlotWish): Promise<void> {
  await parts.atPool.end(identifier).catch((error: unknown) => {
    warnOfLeft(parts.logger, identifier, error)
    void parts.onLeft?.({ backend: parts.backend, id: spec.slotId, handle })
  })
}

/** Logs a session that could not be ended. */
export function warnOfLeft(logger: BackendLogger, identifier: string, error: unknown): void {
  logger.warn(
    { err: error, session: hashOf(identifier) },
    'azure: a session that failed to start may wait until its cooldown ends',
  )
}

const OPEN_ERRORS: ReadonlySet<string> = new Set([
  'backend_unavailable',
  'capability_missing',
  'sandbox_open_failed',
  'sandbox_lost',
])

async function reached(parts: SlotParts, wish: SlotWish, signal: AbortSignal): Promise<AzureSlot> {
  const { config, executions } = parts
  if (executions === null) {
    const options = agentOptions(agentWish(wish.spec))
    const calls = createPodCalls(
      askContainer(parts.api, wish.identifier, config.api_timeout_ms),
      randomBytes(16).toString('hex'),
    )
    return await attached(parts, wish, { calls, options, incarnation: '' }, signal)
  }
  const session = createInterpreterSession({
    api: parts.api,
    executions,
    identifier: wish.identifier,
    python: config.python,
    ...(wish.pod === null ? {} : { incarnation: wish.pod.incarnation }),
  })
  const options = agentOptions({
    ...agentWish(wish.spec),
    work: session.work,
    node: config.node,
    scope: true,
    rlimits: { fsize: wish.spec.limits.disk_mib * MiB },
  })
  if (wish.pod === null)
    await session.provision({ pod: config.detached, transforms: mayRunNode(wish.spec) }, signal)
  const { incarnation } = session
  if (config.detached) {
    const calls = createPodCalls(session.ask, randomBytes(16).toString('hex'))
    return await attached(
      parts,
      wish,
      { calls, options, incarnation, oneAtATime: { pollMs: EXECUTED_POLL_MS } },
      signal,
    )
  }
  const channel = openBatchChannel(session, options, wish.deadlines)
  return await slotOf(
    parts,
    wish,
    { channel, pod: { boot: '', incarnation }, release: refuseRelease },
    signal,
  )
}

const agentWish = ({ language, preload, cell }: SlotSpec) => ({ language, preload, cell })

const refuseRelease = (): Promise<void> =>
  Promise.reject(new CofferdamError('capability_missing', 'azure: such a session cannot be kept'))

async function attached(
  parts: SlotParts,
  wish: SlotWish,
  way: { calls: PodCalls; options: string[]; incarnation: string; oneAtATime?: { pollMs: number } },
  signal: AbortSignal,
): Promise<AzureSlot> {
  const { calls, options, incarnation } = way
  const { boot } = await calls.attach({ fence: wish.fence, boot: wish.pod?.boot ?? null, options }, signal)
  const channel: PodChannel = openPodChannel(calls, way.oneAtATime)
  const release = (keep: Kept): Promise<void> => calls.release(channel.readAt, keep)
  return await slotOf(parts, wish, { channel, pod: { boot, incarnation }, release }, signal)
}

async function slotOf(
  { backend, atPool }: SlotParts,
  wish: SlotWish,
  made: {
    channel: { readable: Readable; writable: Writable }
    pod: AzureSlot['pod']
    release: AzureSlot['release']
  },
  signal: AbortSignal,
): Promise<AzureSlot> {
  const closed = Promise.withResolvers<CofferdamError>()
  const session = createGuestSession({ ...made.channel, onClosed: closed.resolve })
  try {
    const slot = createRemoteSlot({
      backend,
      spec: wish.spec,
      session,
      ready: await session.ready(signal),
      handle: wish.handle,
      vendorRef: hashOf(wish.identifier),
      closed: closed.promise,
      // Nothing to extend: the service ends a session only by the time since its last call.
      keep: () => Promise.resolve(),
      stderrTail: () => '',
      destroy: () => atPool.end(wish.identifier),
    })
    return { slot, pod: made.pod, release: made.release }
  } catch (error) {
    session.close()
    throw asMissingLanguage(backend, wish.spec, error)
  }
}
