/**
 * One sandbox at E2B up to the point where its interpreter waits, or an agent that waits in one since another worker's turn.
 *
 *   create ──upload agent──start──(frames)──R──▶ slot        any failure or abort: killed at the vendor, then thrown
 *   join ──(R again)──P──A──▶ slot                           any failure: thrown, and nothing was run
 *
 * It is created with a short life: a worker that dies here costs a minute. Each execution then asks for the life that it needs.
 */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { createGuestSession, guestFiles, type GuestReady } from '@cofferdam/guest'
import type { BackendLogger } from '../deps.ts'
import type { Channel } from '../remote/channel.ts'
import type { LeftBehind } from '../remote/left-behind.ts'
import { createRemoteSlot, type RemoteSlot } from '../remote/remote-slot.ts'
import type { SlotSpec } from '../warm/index.ts'
import { keepAccessToken } from './access-token.ts'
import { agentCommand, GUEST } from './agent-command.ts'
import type { E2bConfig } from './config.ts'
import { madeNone, type ControlApi, type Created } from './control-api.ts'
import { envdAddress, requireInterpreter } from './envd-address.ts'
import { createEnvd } from './envd.ts'
import { whyFailed } from './why-failed.ts'

/** Beyond the longest start: the first execution then asks for the life that it needs. */
const START_MARGIN_MS = 60_000

/** Metadata by which a sandbox is found again. */
export const OWNER = 'cofferdam_owner'
export const SLOT = 'cofferdam_slot'

export interface StartParts {
  /** What it could not kill is left behind. */
  api: ControlApi
  left: LeftBehind
  config: E2bConfig
  logger: BackendLogger
}

/**
 * `metadata` is what it is found by besides its slot. Throws `backend_unavailable`, `sandbox_open_failed`, or the reason of
 * `signal`; nothing is left at the vendor then.
 */
export async function startSlot(
  parts: StartParts,
  spec: SlotSpec,
  metadata: Record<string, string>,
  signal: AbortSignal,
): Promise<RemoteSlot> {
  const { config } = parts
  signal.throwIfAborted()
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(config.ready_timeout_ms)])
  let created: Created | null = null
  try {
    created = await create(parts, { ...metadata, [SLOT]: spec.slotId }, inTime)
    const envd = createEnvd(envdAddress(created, config), config.api_timeout_ms)
    await envd.upload(
      guestFiles().map(({ name, source }) => ({ path: `${GUEST}/${name}`, source })),
      inTime,
    )
    if (config.code_interpreter) await requireInterpreter(created, config, inTime)
    const channel = await envd.start(agentCommand(config, spec), spec.slotId, inTime)
    return await handshake(parts, spec, created, channel, inTime)
  } catch (error) {
    if (created !== null) await discard(parts, created.sandboxID)
    signal.throwIfAborted()
    if (
      isCofferdamError(error) &&
      (error.code === 'backend_unavailable' || error.code === 'sandbox_open_failed')
    )
      throw error
    throw new CofferdamError('sandbox_open_failed', `e2b: the sandbox did not start: ${whyFailed(error)}`, {
      cause: error,
    })
  }
}

/**
 * Speaks again with the agent that was started for `slot` in a sandbox that runs. `ready` is what it said then, for it says
 * it once. Throws when it does not answer.
 */
export async function joinSlot(
  parts: StartParts,
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
    // Its answer proves that the stream leads to an agent that waits.
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

/** The channel with the agent's first frame in front: type, length, JSON (libs/guest/src/protocol.ts). */
function saidBefore(channel: Channel, ready: GuestReady): Channel {
  const json = Buffer.from(JSON.stringify(ready))
  const head = Buffer.alloc(5)
  head.write('R')
  head.writeUInt32LE(json.length, 1)
  channel.readable.unshift(Buffer.concat([head, json]))
  return channel
}

/** Asks for one, and for its id again where the answer was lost: what was made must not be left running. */
async function create(
  { api, left, config, logger }: StartParts,
  metadata: Record<string, string> & { [SLOT]: string },
  signal: AbortSignal,
): Promise<Created> {
  const lifeMs = config.ready_timeout_ms + START_MARGIN_MS
  try {
    return await api.create({ template: config.template, lifeMs, metadata }, signal)
  } catch (error) {
    if (madeNone(error)) throw error
    const slot = metadata[SLOT]
    // It may be made after this look, and lives no longer than that.
    const untilMs = Date.now() + lifeMs
    await left
      .end(slot, () => killBySlot(api, slot), { comesUntilMs: untilMs, endsAtMs: untilMs })
      .catch((cause: unknown) =>
        logger.warn(
          { err: cause, slot },
          'e2b: a sandbox whose creation failed may run on until its life ends',
        ),
      )
    throw error
  }
}

/** Kills whatever was made for a slot, also when its id was never learnt; true when something was there. */
export async function killBySlot(api: ControlApi, slot: string): Promise<boolean> {
  const found = await api.list({ [SLOT]: slot })
  const killed = await Promise.all(found.map(({ sandboxID }) => api.kill(sandboxID)))
  return killed.includes(true)
}

async function discard({ api, logger }: StartParts, id: string): Promise<void> {
  await api
    .kill(id)
    .catch((error: unknown) =>
      logger.warn({ err: error, sandbox: id }, 'e2b: a failed sandbox was not removed'),
    )
}

async function handshake(
  { api }: StartParts,
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
      spec,
      session,
      ready: await session.ready(signal),
      handle: { sandbox: id },
      closed: closed.promise,
      keep: (ms) => api.keep(id, ms),
      stderrTail: () => channel.stderrTail(),
      destroy: () => api.kill(id),
    })
    keepAccessToken(slot, envdAccessToken ?? '')
    return slot
  } catch (error) {
    session.close()
    const said = channel.stderrTail()
    if (said === '') throw error
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
