/**
 * Starts a sandbox at E2B and waits until its interpreter is ready. Or joins an agent that has waited since
 * another worker's turn. R, P and A are frames (libs/sandbox/src/guest/protocol.ts).
 *
 *   create ──upload agent──start──(frames)──R──▶ slot    failure: kill it, try a fresh one once, then throw
 *   join ──(R again)──P──A──▶ slot                       failure: throw; nothing was run
 */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { createGuestSession, type GuestReady } from '@cofferdam/sandbox/guest'
import { type Channel, createRemoteSlot, type RemoteSlot, asMissingLanguage } from '@cofferdam/backend-remote'
import type { SlotSpec } from '@cofferdam/sandbox/warm'
import { keepAccessToken } from './access-token.ts'
import { agentCommand, agentFiles } from './agent-command.ts'
import type { Created } from './control-api.ts'
import { createSandbox, SLOT, type SandboxParts } from './create-sandbox.ts'
import { envdAddress, requireInterpreter } from './envd-address.ts'
import { createEnvd } from './envd.ts'
import { whyFailed } from './why-failed.ts'

export interface StartWish {
  /** Metadata by which the sandbox is found, besides its slot. */
  metadata: Record<string, string>
  /** Whether the sandbox's agent must prove between turns that only files are left. */
  isJailed: boolean
}

/**
 * Throws `backend_unavailable`, `sandbox_open_failed`, `capability_missing` or the reason of `signal`, and
 * then leaves nothing at the vendor. If a sandbox does not start, a fresh one is tried once, since no user
 * code has run.
 */
export async function startSlot(
  parts: SandboxParts,
  spec: SlotSpec,
  wish: StartWish,
  signal: AbortSignal,
): Promise<RemoteSlot> {
  for (let attempt = 1; ; attempt += 1) {
    signal.throwIfAborted()
    const inTime = AbortSignal.any([signal, AbortSignal.timeout(parts.config.ready_timeout_ms)])
    let created: Created | null = null
    try {
      created = await createSandbox(parts, { ...wish.metadata, [SLOT]: spec.slotId }, inTime)
      return await started(parts, spec, wish, created, inTime)
    } catch (error) {
      if (created !== null) await discard(parts, created.sandboxID)
      signal.throwIfAborted()
      if (created === null || attempt === 2 || isLasting(error)) throw openFailure(error)
      parts.logger.info(
        { err: error, sandbox: created.sandboxID },
        'e2b: a sandbox did not start; a fresh one is tried',
      )
    }
  }
}

/** Starts the agent in a new sandbox and waits for its first frame. */
async function started(
  parts: SandboxParts,
  spec: SlotSpec,
  { isJailed }: StartWish,
  created: Created,
  signal: AbortSignal,
): Promise<RemoteSlot> {
  const { config } = parts
  const envd = createEnvd(envdAddress(created, config), config.api_timeout_ms)
  await envd.upload(agentFiles(spec, isJailed), signal)
  if (config.code_interpreter) await requireInterpreter(created, config, signal)
  const channel = await envd.start(agentCommand(config, spec, isJailed), spec.slotId, signal)
  return await handshake(parts, spec, created, channel, signal)
}

/** The cause is the template, so every sandbox of it would fail. */
const isLasting = (error: unknown): boolean =>
  isCofferdamError(error) &&
  (error.code === 'capability_missing' || error.details['reason'] === 'no_interpreter')

function openFailure(error: unknown): CofferdamError {
  if (isCofferdamError(error) && OPEN_ERRORS.has(error.code)) return error
  return new CofferdamError('sandbox_open_failed', `e2b: the sandbox did not start: ${whyFailed(error)}`, {
    cause: error,
  })
}

const OPEN_ERRORS: ReadonlySet<string> = new Set([
  'backend_unavailable',
  'capability_missing',
  'sandbox_open_failed',
])

/**
 * Talks again to the agent of `slot` in a running sandbox. `ready` is the frame that the agent sent when it
 * started; it sends that once. Throws if the agent does not answer.
 */
export async function joinSlot(
  parts: SandboxParts,
  spec: SlotSpec,
  at: { created: Created; slot: string; ready: GuestReady },
  signal: AbortSignal,
): Promise<RemoteSlot> {
  const { config } = parts
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(config.ready_timeout_ms)])
  const channel = await createEnvd(envdAddress(at.created, config), config.api_timeout_ms).connect(
    at.slot,
    inTime,
  )
  const slot = await handshake(parts, spec, at.created, saidBefore(channel, at.ready), inTime)
  const stop = (): void => slot.session.close()
  inTime.addEventListener('abort', stop, { once: true })
  try {
    if (inTime.aborted) stop()
    // The answer proves that an agent waits at the other end of the stream.
    await slot.session.usage()
    return slot
  } catch (error) {
    slot.session.close()
    signal.throwIfAborted()
    throw error
  } finally {
    inTime.removeEventListener('abort', stop)
  }
}

/** Puts the agent's first frame in front of what the channel reads (libs/sandbox/src/guest/protocol.ts). */
function saidBefore(channel: Channel, ready: GuestReady): Channel {
  const json = Buffer.from(JSON.stringify(ready))
  const head = Buffer.alloc(5)
  head.write('R')
  head.writeUInt32LE(json.length, 1)
  channel.readable.unshift(Buffer.concat([head, json]))
  return channel
}

async function discard({ api, logger }: SandboxParts, id: string): Promise<void> {
  await api
    .kill(id)
    .catch((error: unknown) =>
      logger.warn({ err: error, sandbox: id }, 'e2b: a failed sandbox was not removed'),
    )
}

async function handshake(
  { api }: SandboxParts,
  spec: SlotSpec,
  { sandboxID: id, envdAccessToken }: Created,
  channel: Channel,
  signal: AbortSignal,
): Promise<RemoteSlot> {
  const closed = Promise.withResolvers<CofferdamError>()
  const session = createGuestSession({
    readable: channel.readable,
    writable: channel.writable,
    onClosed: closed.resolve,
  })
  try {
    const slot = createRemoteSlot({
      backend: 'e2b',
      spec,
      session,
      ready: await session.ready(signal),
      handle: { sandbox: id },
      vendorRef: id,
      closed: closed.promise,
      keep: (ms) => api.keep(id, ms),
      stderrTail: () => channel.stderrTail(),
      destroy: () => api.kill(id),
    })
    keepAccessToken(slot, envdAccessToken ?? '')
    return slot
  } catch (error) {
    session.close()
    const missing = asMissingLanguage('e2b', spec, error)
    if (missing !== error || (isCofferdamError(error) && error.code === 'capability_missing')) throw missing
    const said = channel.stderrTail()
    // Throw the channel's error, because the session knows only that its stream has ended.
    if (said === '') throw channel.readable.errored ?? error
    throw new CofferdamError(
      'sandbox_open_failed',
      `e2b: the agent did not start: ${said.trim().split('\n').at(-1)?.slice(0, 300)}`,
      {
        cause: error,
        details: { said },
      },
    )
  }
}
