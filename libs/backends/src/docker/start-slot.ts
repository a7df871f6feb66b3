/**
 * Starts one container up to the point where its interpreter waits: everything that is the same for any program of
 * its kind. What the program brings comes at bind (sandbox.ts), so that slots can be started ahead of need.
 *
 *   create ──attach──start──R──> slot          any failure or abort: destroyed, then thrown
 */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { createGuestSession, type GuestReady, type GuestSession } from '@cofferdam/guest'
import type { Duplex } from 'node:stream'
import type { BackendLogger } from '../deps.ts'
import { openAttachStream, type AttachStream } from './attach-stream.ts'
import { containerName, containerOptions, type SlotSpec } from './container-options.ts'
import { daemonMessage, statusOf, type Daemon } from './daemon.ts'
import { destroyContainer } from './destroy-container.ts'
import { MISSING_IMAGE_FIX } from './probe.ts'

/** A started container whose interpreter waits. */
export interface Slot {
  readonly spec: SlotSpec
  readonly name: string
  readonly session: GuestSession
  readonly ready: GuestReady
  /** Why the session ended; null while it lives. */
  closedWith(): CofferdamError | null
  /** The agent's last words on stderr. */
  stderrTail(): string
}

/**
 * Throws `backend_unavailable` when the image is missing, `sandbox_open_failed` for everything else that the daemon or
 * the agent refuses, or the reason of `signal`. Nothing is left behind when it throws.
 */
export async function startSlot(
  daemon: Daemon,
  spec: SlotSpec,
  options: { readyTimeoutMs: number; signal: AbortSignal; logger: BackendLogger },
): Promise<Slot> {
  const { signal } = options
  const name = containerName(spec.slotId)
  let attached: AttachStream | undefined
  try {
    // Not stopped by the signal: a create that nobody waits for would leave a container that nobody knows.
    const container = await daemon.call('create', (abortSignal) =>
      daemon.docker.createContainer({ ...containerOptions(spec), abortSignal }),
    )
    const socket = await daemon.call(
      'attach',
      (abortSignal) =>
        container.attach({
          stream: true,
          stdin: true,
          stdout: true,
          stderr: true,
          hijack: true,
          abortSignal,
        }),
      signal,
    )
    attached = openAttachStream(socket as Duplex)
    const stream = attached
    let closedWith: CofferdamError | null = null
    const session = createGuestSession({
      readable: stream.readable,
      writable: stream.writable,
      onClosed: (reason) => {
        closedWith = reason
      },
    })
    await daemon.call('start', (abortSignal) => container.start({ abortSignal }), signal)
    const ready = await session.ready(AbortSignal.any([signal, AbortSignal.timeout(options.readyTimeoutMs)]))
    return { spec, name, session, ready, closedWith: () => closedWith, stderrTail: () => stream.stderrTail() }
  } catch (error) {
    const tail = attached?.stderrTail() ?? ''
    attached?.destroy()
    // A daemon that does not answer cannot remove either; the label sweep finds what it may have made.
    await destroyContainer(daemon, name).catch((cause: unknown) => {
      options.logger.warn(
        { container: name, reason: daemonMessage(cause) },
        'a failed sandbox could not be removed',
      )
    })
    throw signal.aborted ? signal.reason : explain(error, spec, tail)
  }
}

function explain(error: unknown, spec: SlotSpec, tail: string): CofferdamError {
  const status = statusOf(error)
  if (status === 404 && /no such image/i.test(daemonMessage(error)))
    return new CofferdamError(
      'backend_unavailable',
      `The image ${spec.image} is not on this Docker host. ${MISSING_IMAGE_FIX}`,
      { cause: error },
    )
  const said = tail === '' ? {} : { agent_stderr: tail }
  if (isCofferdamError(error) && error.code === 'sandbox_open_failed')
    return new CofferdamError(error.code, error.message, {
      cause: error,
      details: { ...error.details, ...said },
    })
  const why =
    error instanceof DOMException && error.name === 'TimeoutError'
      ? 'the agent was not ready in time'
      : daemonMessage(error)
  return new CofferdamError('sandbox_open_failed', `The container could not be started: ${why}`, {
    cause: error,
    details: said,
  })
}
