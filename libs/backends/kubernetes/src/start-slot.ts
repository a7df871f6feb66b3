/**
 * Makes a slot from a pod: connects to the pod's agent and waits for frame R (guest/protocol.ts), which says
 * that the interpreter is ready.
 *
 * - A new pod (`startSlot`): claims it, connects and starts the agent. In a foreign image the agent is
 *   uploaded first. A failed greeting is tried again, unless the pod is for a session. If the pod cannot be
 *   reached because the claim has another one by now, the same is done with that pod. After any other failure
 *   or abort, the claim is deleted and an error is thrown.
 * - The pod of a session (`attachSlot`): connects once and greets the agent that runs there. After a failure,
 *   the connection is closed and the error is thrown. The claim stays.
 *
 * The claim is watched while its channel is open. If the claim loses its pod, the channel is closed.
 */
import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { CofferdamError, isCofferdamError, type SessionId } from '@cofferdam/contract'
import { agentOptions, createGuestSession, type AgentOptions } from '@cofferdam/sandbox/guest'
import { type Channel, createRemoteSlot, type RemoteSlot, asMissingLanguage } from '@cofferdam/backend-remote'
import type { SlotSpec } from '@cofferdam/sandbox/warm'
import type { ClaimedPod } from './claim-state.ts'
import type { Claims, ClaimWish } from './claims.ts'
import type { KubernetesConfig } from './config.ts'
import { connected, dialled, redialPause } from './dial-pod.ts'
import { startByPythonRuntime } from './foreign/python-runtime.ts'
import { startBySandboxd, type SandboxdSettings } from './foreign/sandboxd.ts'
import { greetAgain, type SessionHold, greetFresh, NotTakenIn } from './greet-pod.ts'

/**
 * The claim of a new pod lives for its start, its wait in a pool and this time. The first execution then sets
 * the time that it needs.
 */
const START_MARGIN_MS = 60_000
/** The folder for the agent in a foreign image. */
const FOLDER = '/tmp/.cofferdam'
const MiB = 1024 * 1024

export interface StartParts {
  claims: Claims
  config: KubernetesConfig
  /** The longest time that a slot waits before it is used or given up, in milliseconds. */
  waitMs: number
}

/** The session that a claim belongs to, and what the next worker needs to connect. */
export interface SessionClaim extends SessionHold {
  session: SessionId
}

/** A pod whose claim is followed. */
interface HeldPod {
  claims: Claims
  pod: ClaimedPod
  lost: AbortSignal
}

/**
 * Starts a slot in a new pod. Throws `backend_unavailable`, `capability_missing`, `sandbox_open_failed` or
 * the reason of `signal`, and then gives the claim up.
 */
export async function startSlot(
  { claims, config, waitMs }: StartParts,
  spec: SlotSpec,
  signal: AbortSignal,
  kept: SessionClaim | null = null,
): Promise<RemoteSlot> {
  signal.throwIfAborted()
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(config.ready_timeout_ms)])
  let pod: ClaimedPod | null = null
  try {
    const lifeMs = config.ready_timeout_ms + waitMs + START_MARGIN_MS
    const wish: ClaimWish = {
      slot: spec.slotId,
      owner: spec.owner,
      ...(kept === null ? {} : { session: kept.session }),
    }
    for (pod = await claims.acquire(wish, lifeMs, inTime); ;) {
      const held = { claims, pod, lost: claims.lossOf(pod) }
      const here = AbortSignal.any([inTime, held.lost])
      const channel = await channelTo(pod, config, spec, kept, here).catch(async (error: unknown) => {
        // The greeting failed. The claim may have lost this pod and got another one.
        const next = inTime.aborted ? null : await claims.nextPod(held.pod, inTime)
        if (next === null) throw error
        pod = next
        return null
      })
      if (channel !== null) return await handshake(held, spec, channel, here)
    }
  } catch (error) {
    if (pod !== null) await claims.giveUp(pod.claim)
    signal.throwIfAborted()
    if (
      isCofferdamError(error) &&
      (error.code === 'backend_unavailable' ||
        error.code === 'capability_missing' ||
        error.code === 'sandbox_open_failed')
    )
      throw error
    throw new CofferdamError('sandbox_open_failed', 'kubernetes: the sandbox did not start', { cause: error })
  }
}

/** Starts a slot in a session's pod that has no worker now. Throws its failure, or `signal`'s reason. */
export async function attachSlot(
  { claims, config }: Pick<StartParts, 'claims' | 'config'>,
  spec: SlotSpec,
  pod: ClaimedPod,
  hold: SessionHold,
  signal: AbortSignal,
): Promise<RemoteSlot> {
  const held = { claims, pod, lost: claims.lossOf(pod) }
  const here = AbortSignal.any([signal, held.lost])
  try {
    // The pod listens since its first worker, so a refusal is final.
    const socket = await connected(pod.ip, config.port, here)
    const channel = await greeted(socket, () => greetAgain(socket, pod, hold, here))
    return await handshake(held, spec, channel, here)
  } catch (error) {
    claims.letGo(pod.claim)
    throw error
  }
}

/** Connects to the agent in the way that the pod's image needs. */
async function channelTo(
  pod: ClaimedPod,
  config: KubernetesConfig,
  spec: SlotSpec,
  hold: SessionHold | null,
  signal: AbortSignal,
): Promise<Channel> {
  const { runtime, port, foreign } = config
  const { language, preload, cell } = spec
  // Our own image knows where its interpreters, cgroup and disk are.
  const options = runtime === 'cofferdam' ? { language, preload, cell } : foreignAgent(foreign, spec)
  if (runtime === 'sandboxd')
    return await startBySandboxd(pod, agentOptions(options), await sandboxdOf(foreign), signal)
  if (runtime === 'python-runtime-sandbox')
    await startByPythonRuntime(pod, [String(port)], { ...foreign, folder: FOLDER }, signal)
  return await takenIn(pod, port, agentOptions(options), hold, signal)
}

function foreignAgent({ python, node }: KubernetesConfig['foreign'], spec: SlotSpec): Partial<AgentOptions> {
  return {
    language: spec.language,
    preload: spec.preload,
    python,
    node,
    // Keeps the program from signalling other processes of the pod that run as its user, such as the agent.
    scope: true,
    rlimits: { fsize: spec.limits.disk_mib * MiB },
  }
}

async function sandboxdOf(foreign: KubernetesConfig['foreign']): Promise<SandboxdSettings> {
  const { root, python, token_file } = foreign
  const token = token_file === null ? null : (await readFile(token_file, 'utf8')).trim()
  return { root, python, folder: FOLDER, token }
}

async function handshake(
  { claims, pod, lost }: HeldPod,
  spec: SlotSpec,
  channel: Channel,
  signal: AbortSignal,
): Promise<RemoteSlot> {
  const closed = Promise.withResolvers<CofferdamError>()
  const { readable, writable } = channel
  const session = createGuestSession({ readable, writable, onClosed: closed.resolve })
  const onLost = (): void => session.close(lost.reason)
  lost.addEventListener('abort', onLost, { once: true })
  if (lost.aborted) onLost()
  void closed.promise.then(() => claims.letGo(pod.claim))
  try {
    return createRemoteSlot({
      backend: 'kubernetes',
      spec,
      session,
      ready: await session.ready(signal),
      handle: { claim: pod.claim },
      vendorRef: `${pod.claim}/${pod.name}`,
      closed: closed.promise,
      keep: (ms) => claims.keep(pod.claim, ms),
      stderrTail: () => channel.stderrTail(),
      destroy: () => claims.release(pod.claim),
    })
  } catch (error) {
    session.close()
    throw asMissingLanguage('kubernetes', spec, error)
  }
}

/**
 * Connects to the agent in a new pod that runs pod.py, and retries until the right pod answers. Throws why
 * none did, or `signal`'s reason.
 */
async function takenIn(
  pod: ClaimedPod,
  port: number,
  options: readonly string[],
  hold: SessionHold | null,
  signal: AbortSignal,
): Promise<Channel> {
  for (let last: NotTakenIn | null = null; ;)
    try {
      if (last !== null) await redialPause(signal)
      const socket = await dialled(pod.ip, port, signal)
      return await greeted(socket, () => greetFresh(socket, pod, options, hold, signal))
    } catch (error) {
      if (signal.aborted) throw last ?? error
      // Retries at this pod until `signal` says that the claim lost it. A session is not retried, because its
      // key was sent.
      if (!(error instanceof NotTakenIn) || hold !== null) throw error
      last = error
    }
}

/** Returns the channel after a successful greeting. Closes the socket otherwise. */
async function greeted(socket: Socket, greet: () => Promise<void>): Promise<Channel> {
  try {
    await greet()
    return { readable: socket, writable: socket, stderrTail: () => '' }
  } catch (error) {
    socket.destroy()
    throw error
  }
}
