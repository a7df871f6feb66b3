/**
 * One claimed pod up to the point where its interpreter waits.
 *
 *   claim ──dial──hello──(frames)──R──▶ slot        any failure or abort: the claim is deleted, then thrown
 *     └──(another's image) agent put in ─┘
 */
import { readFile } from 'node:fs/promises'
import { createConnection, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { agentOptions, createGuestSession, type AgentOptions } from '@cofferdam/guest'
import { z } from 'zod'
import type { Channel } from '../remote/channel.ts'
import { createRemoteSlot, type RemoteSlot } from '../remote/remote-slot.ts'
import type { SlotSpec } from '../warm/index.ts'
import type { ClaimedPod, Claims } from './claims.ts'
import type { KubernetesConfig } from './config.ts'
import { startByPythonRuntime } from './foreign/python-runtime.ts'
import { startBySandboxd, type SandboxdSettings } from './foreign/sandboxd.ts'

/** Beyond the start and the wait in a pool: the first execution then asks for the life that it needs. */
const START_MARGIN_MS = 60_000
const HELLO_MAX = 4096
/** A pod may be Ready before its first process listens. */
const REDIAL_MS = 50
/** Where the agent goes in another's image; gone with the pod. */
const FOLDER = '/tmp/.cofferdam'
const MiB = 1024 * 1024

const helloSchema = z.union([z.object({ error: z.string() }), z.object({ pod: z.string() })])

export interface StartParts {
  claims: Claims
  config: KubernetesConfig
  /** A slot waits so long at most before it is used or given up. */
  waitMs: number
}

/** Throws `backend_unavailable`, `sandbox_open_failed`, or the reason of `signal`; nothing is left in the cluster then. */
export async function startSlot(
  { claims, config, waitMs }: StartParts,
  spec: SlotSpec,
  signal: AbortSignal,
): Promise<RemoteSlot> {
  signal.throwIfAborted()
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(config.ready_timeout_ms)])
  let pod: ClaimedPod | null = null
  try {
    const lifeMs = config.ready_timeout_ms + waitMs + START_MARGIN_MS
    pod = await claims.acquire(spec.owner, spec.slotId, lifeMs, inTime)
    return await handshake(claims, spec, pod, await channelTo(pod, config, spec, inTime), inTime)
  } catch (error) {
    if (pod !== null) await claims.release(pod.claim)
    signal.throwIfAborted()
    if (
      isCofferdamError(error) &&
      (error.code === 'backend_unavailable' || error.code === 'sandbox_open_failed')
    )
      throw error
    throw new CofferdamError('sandbox_open_failed', 'kubernetes: the sandbox did not start', { cause: error })
  }
}

/** The agent's channel, by what the pod's image runs. */
async function channelTo(
  pod: ClaimedPod,
  config: KubernetesConfig,
  spec: SlotSpec,
  signal: AbortSignal,
): Promise<Channel> {
  const { runtime, port, foreign } = config
  const { language, preload, cell } = spec
  // Where interpreters, cgroup and disk are is our image's own matter.
  const options = runtime === 'cofferdam' ? { language, preload, cell } : foreignAgent(foreign, spec)
  if (runtime === 'sandboxd')
    return await startBySandboxd(pod, agentOptions(options), await sandboxdOf(foreign), signal)
  if (runtime === 'python-runtime-sandbox')
    await startByPythonRuntime(pod, [String(port)], { ...foreign, folder: FOLDER }, signal)
  const socket = await dial(pod, port, signal)
  await hello(socket, pod, agentOptions(options), signal)
  return { readable: socket, writable: socket, stderrTail: () => '' }
}

function foreignAgent({ python, node }: KubernetesConfig['foreign'], spec: SlotSpec): Partial<AgentOptions> {
  return {
    language: spec.language,
    preload: spec.preload,
    python,
    node,
    // All that a signal could reach is inside the pod, which is the program's own.
    scope: true,
    rlimits: { fsize: spec.limits.disk_mib * MiB },
  }
}

async function sandboxdOf(foreign: KubernetesConfig['foreign']): Promise<SandboxdSettings> {
  const { root, python, token_file } = foreign
  const token = token_file === null ? null : (await readFile(token_file, 'utf8')).trim()
  return { root, python, folder: FOLDER, token }
}

async function dial({ ip }: ClaimedPod, port: number, signal: AbortSignal): Promise<Socket> {
  for (;;) {
    signal.throwIfAborted()
    const socket = await connected(ip, port, signal).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNREFUSED') throw error
      return null
    })
    if (socket !== null) return socket
    await sleep(REDIAL_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}

async function connected(host: string, port: number, signal: AbortSignal): Promise<Socket> {
  // Not with the signal as an option: that would end the connection also after it was made.
  const socket = createConnection({ host, port, noDelay: true, keepAlive: true })
  const { promise, resolve, reject } = Promise.withResolvers<undefined>()
  const onAbort = (): void => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  socket.once('connect', () => resolve(undefined))
  socket.once('error', reject)
  try {
    await promise
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** An address may meanwhile be another pod's: only the one that bears the sandbox's name gets anything from us. */
async function hello(socket: Socket, pod: ClaimedPod, options: string[], signal: AbortSignal): Promise<void> {
  socket.write(`${JSON.stringify({ pod: pod.name, options })}\n`)
  let line = Buffer.alloc(0)
  while (!line.includes(0x0a)) {
    const chunk = await nextByte(socket, signal)
    if (chunk === null || line.length > HELLO_MAX)
      throw new CofferdamError('sandbox_open_failed', `kubernetes: ${pod.name} closed the connection.`)
    line = Buffer.concat([line, chunk])
  }
  const answer = helloSchema.safeParse(JSON.parse(line.toString('utf8')))
  if (!answer.success || 'error' in answer.data || answer.data.pod !== pod.name)
    throw new CofferdamError(
      'sandbox_open_failed',
      `kubernetes: what answers at ${pod.ip} is not ${pod.name}.`,
    )
}

/** One byte at a time, for the rest is the agent's; null at the end. */
async function nextByte(socket: Socket, signal: AbortSignal): Promise<Buffer | null> {
  for (;;) {
    const byte = socket.read(1) as Buffer | null
    if (byte !== null) return byte
    if (socket.readableEnded || socket.destroyed) return null
    signal.throwIfAborted()
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const done = (): void => resolve(undefined)
    const events = ['readable', 'end', 'close', 'error'] as const
    for (const event of events) socket.once(event, done)
    signal.addEventListener('abort', done, { once: true })
    await promise
    for (const event of events) socket.off(event, done)
    signal.removeEventListener('abort', done)
  }
}

async function handshake(
  claims: Claims,
  spec: SlotSpec,
  pod: ClaimedPod,
  channel: Channel,
  signal: AbortSignal,
): Promise<RemoteSlot> {
  const closed = Promise.withResolvers<CofferdamError>()
  const { readable, writable } = channel
  const session = createGuestSession({ readable, writable, onClosed: closed.resolve })
  try {
    return createRemoteSlot({
      spec,
      session,
      ready: await session.ready(signal),
      handle: { claim: pod.claim },
      closed: closed.promise,
      keep: (ms) => claims.keep(pod.claim, ms),
      stderrTail: () => channel.stderrTail(),
      destroy: () => claims.release(pod.claim),
    })
  } catch (error) {
    session.close()
    throw error
  }
}
