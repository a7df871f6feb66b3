/**
 * Starts a container until its interpreter waits, which needs nothing of a particular program. The program
 * comes when the slot is bound (../guest-sandbox.ts), so slots can start in advance.
 *
 *   create ──attach──start──(agent connects)──R──> slot        any failure or abort: destroyed, then thrown
 *
 * The attach stream carries the frames. If a socket carries them, the attach stream only has the agent's
 * stderr, and its stdin, whose end ends the agent.
 */
import type { Duplex } from 'node:stream'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { createGuestSession } from '../guest/index.ts'
import type { BackendLogger } from '../deps.ts'
import { createGuestSlot, type GuestSlot, type RunWatch } from '../guest-slot.ts'
import type { SlotSpec } from '../warm/index.ts'
import { openAttachStream, type AttachStream } from './attach-stream.ts'
import { blamesRuntime, buildFix, type HostChoice } from './choose-host.ts'
import { containerName, containerOptions, type ContainerSpec } from './container-options.ts'
import { daemonMessage, statusOf, type Daemon } from './daemon.ts'
import { destroyContainer, endedByItself } from './destroy-container.ts'
import type { HostCounters, HostCounterSource } from './host-counters.ts'
import type { OomEvents } from './oom-events.ts'
import type { IsolationProof } from './prove-isolation.ts'
import { runsOnHostKernel, runtimeKind } from './runtime-kind.ts'
import type { SocketChannel, SocketFolders } from './socket-channel.ts'

export interface StartParts {
  daemon: Daemon
  host: HostChoice
  proof: IsolationProof
  sockets: SocketFolders
  hostCounters: HostCounterSource
  oomEvents: OomEvents
  readyTimeoutMs: number
  logger: BackendLogger
}

/**
 * Throws `backend_unavailable` if the image is missing, `sandbox_open_failed` for other failures, or the
 * reason of `signal`, and then leaves nothing.
 */
export async function startSlot(parts: StartParts, spec: SlotSpec, signal: AbortSignal): Promise<GuestSlot> {
  const { host } = parts
  const { imageId, runtime } = await host.chosen().catch((error: unknown) => {
    throw explain(error, spec, '')
  })
  signal.throwIfAborted()
  const common = { ...spec, image: imageId, runtime }
  const viaAttach = (): Promise<GuestSlot> =>
    startContainer(parts, { ...common, socketFolder: null }, null, signal)
  try {
    if (host.transport.use === 'attach') return await viaAttach()
    const tried = await viaSocket(parts, common, signal)
    if (!('failed' in tried)) return tried
    signal.throwIfAborted()
    if (host.transport.isProven) throw tried.failed
    // Nothing has connected. The attach stream shows whether the socket or the container is the cause.
    const slot = await viaAttach()
    host.socketFails(tried.failed.message)
    return slot
  } catch (error) {
    if (signal.aborted || !isCofferdamError(error) || !blamesRuntime(error.cause)) throw error
    if (!host.runtimeFails(runtime, error.message)) throw error
    return await startSlot(parts, spec, signal)
  }
}

/** The slot, or why nothing connected. Throws failures after the agent has connected. */
async function viaSocket(
  parts: StartParts,
  common: Omit<ContainerSpec, 'socketFolder'>,
  signal: AbortSignal,
): Promise<GuestSlot | { failed: CofferdamError }> {
  let channel: SocketChannel
  try {
    channel = await parts.sockets.listen(common.owner)
  } catch (error) {
    return { failed: new CofferdamError('sandbox_open_failed', daemonMessage(error), { cause: error }) }
  }
  let isConnected = false
  void channel.connected.then(
    () => (isConnected = true),
    () => {},
  )
  try {
    return await startContainer(parts, { ...common, socketFolder: channel.folder }, channel, signal)
  } catch (error) {
    if (isConnected || !isCofferdamError(error) || blamesRuntime(error.cause)) throw error
    return { failed: error }
  } finally {
    await channel.close()
    if (isConnected) parts.host.socketWorks()
  }
}

async function startContainer(
  parts: StartParts,
  spec: ContainerSpec,
  channel: SocketChannel | null,
  signal: AbortSignal,
): Promise<GuestSlot> {
  const { daemon } = parts
  const name = containerName(spec.slotId)
  const kind = runtimeKind(spec.runtime)
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(parts.readyTimeoutMs)])
  let attached: AttachStream | undefined
  try {
    // Not stopped by the signal: an abandoned create would leave an unknown container.
    const container = await daemon.call('create', (abortSignal) =>
      daemon.docker.createContainer({ ...containerOptions(spec), abortSignal }),
    )
    const stdio = await daemon.call(
      'attach',
      (abortSignal) =>
        container.attach({
          stream: true,
          stdin: true,
          stdout: channel === null,
          stderr: true,
          hijack: true,
          abortSignal,
        }),
      signal,
    )
    const stream = (attached = openAttachStream(stdio as Duplex))
    // If a socket carries the frames, nobody reads this stream. It must flow all the same, so that its end
    // and the agent's last output are noticed.
    if (channel !== null) stream.readable.resume()
    const starting = daemon.call('start', (abortSignal) => container.start({ abortSignal }), signal)
    const duplex = channel === null ? stream : await connection(channel, stream, starting, inTime)
    const closed = Promise.withResolvers<CofferdamError>()
    const session = createGuestSession({ ...duplex, onClosed: closed.resolve })
    void closed.promise.then(() => stream.destroy())
    try {
      await starting
      const ready = await session.ready(inTime)
      const { hostKernel } = await parts.host.chosen()
      const { isolation } = parts.proof
      // A runtime whose virtual machine was not proven counts as `container`, so it may use the host's
      // kernel.
      if (isolation !== 'container' && runsOnHostKernel(kind, ready.kernel, hostKernel)) {
        parts.proof.forget()
        throw new CofferdamError(
          'sandbox_open_failed',
          `The runtime ${spec.runtime} does not isolate as ${isolation}: programs run on the kernel ` +
            `of the host (${hostKernel ?? 'unknown'}). Register the real one under this name.`,
        )
      }
      // Null if the agent's own counters are better, or the only ones.
      const counters = kind.countsOnHost ? await parts.hostCounters.of(name) : null
      return createGuestSlot({
        spec,
        session,
        handle: { slot: spec.slotId },
        closed: closed.promise,
        stderrTail: () => stream.stderrTail(),
        watch: () => watchRun(parts.oomEvents, name, counters),
        async destroy(wasAtRest) {
          if (wasAtRest && (await endedByItself(daemon, name))) return
          await destroyContainer(daemon, name, kind)
        },
      })
    } catch (error) {
      session.close()
      throw error
    }
  } catch (error) {
    const tail = attached?.stderrTail() ?? ''
    attached?.destroy()
    // If the daemon does not answer, this fails too. The sweep then finds a container that it may have
    // created.
    await destroyContainer(daemon, name, kind).catch((cause: unknown) => {
      parts.logger.warn(
        { container: name, reason: daemonMessage(cause) },
        'a failed sandbox could not be removed',
      )
    })
    if (isImageGone(error)) parts.host.imageGone()
    throw signal.aborted ? signal.reason : explain(error, spec, tail)
  }
}

/** Watches a run by the daemon's events of its container, and by this host's counters if available. */
function watchRun(oomEvents: OomEvents, name: string, counters: HostCounters | null): RunWatch {
  // Earlier events of this cell say nothing about this run.
  oomEvents.begin(name)
  counters?.begin()
  return {
    addTo: (exit) => ({ ...exit, usage: { ...exit.usage, ...counters?.used() } }),
    usage: () => counters?.used() ?? null,
    killedForMemory: () => oomEvents.happened(name),
    stop: () => undefined,
  }
}

/** The agent's connection. Rejects if the container does not start or ends before. */
async function connection(
  channel: SocketChannel,
  stdio: AttachStream,
  starting: Promise<unknown>,
  signal: AbortSignal,
): Promise<{ readable: Duplex; writable: Duplex }> {
  const ended = stdio.ended.then(() => {
    throw new CofferdamError('sandbox_open_failed', 'the agent ended before it connected to its socket')
  })
  ended.catch(() => {})
  const refused = starting.then(() => ended)
  refused.catch(() => {})
  const socket = await Promise.race([channel.accept(signal), refused])
  return { readable: socket, writable: socket }
}

const isImageGone = (error: unknown): boolean =>
  statusOf(error) === 404 && /no such image/i.test(daemonMessage(error))

function explain(error: unknown, spec: SlotSpec, tail: string): CofferdamError {
  if (isImageGone(error))
    return new CofferdamError(
      'backend_unavailable',
      `The sandbox image is no longer on this Docker host. ${buildFix()}`,
      { cause: error },
    )
  const said = tail === '' ? {} : { agent_stderr: tail }
  if (isCofferdamError(error) && error.code === 'backend_unavailable') return error
  if (isCofferdamError(error) && error.code === 'sandbox_open_failed') {
    const wanted = spec.preload.length === 0 ? '' : ` with ${spec.preload.join(', ')} imported`
    return new CofferdamError(error.code, `${error.message}${wanted}${lastLine(error.details['said'])}`, {
      cause: error,
      details: { ...error.details, ...said },
    })
  }
  return new CofferdamError(
    'sandbox_open_failed',
    `The container could not be started: ${whyNot(error)}${lastLine(tail)}`,
    { cause: error, details: said },
  )
}

function whyNot(error: unknown): string {
  if (error instanceof DOMException && error.name === 'TimeoutError') return 'the agent was not ready in time'
  return isCofferdamError(error) && error.code === 'sandbox_lost' ? 'the agent ended' : daemonMessage(error)
}

/** `: ModuleNotFoundError: No module named 'pandas'`, the last line of a traceback. */
function lastLine(said: unknown): string {
  const line = typeof said === 'string' ? said.trim().split('\n').at(-1) : undefined
  return line === undefined || line === '' ? '' : `: ${line.slice(0, 300)}`
}
