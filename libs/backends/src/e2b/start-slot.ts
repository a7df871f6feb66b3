/**
 * One sandbox at E2B up to the point where its interpreter waits, or an agent that waits in one since another worker's turn.
 *
 *   create ──upload agent──start──(frames)──R──▶ slot        any failure or abort: killed at the vendor, then thrown
 *   join ──(R again)──P──A──▶ slot                           any failure: thrown, and nothing was run
 *
 * It is created with a short life: a worker that dies here costs a minute. Each execution then asks for the life that it needs.
 */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { agentArgv, createGuestSession, guestFiles, type GuestReady } from '@cofferdam/guest'
import type { BackendLogger } from '../deps.ts'
import type { Channel } from '../remote/channel.ts'
import { createRemoteSlot, type RemoteSlot } from '../remote/remote-slot.ts'
import type { SlotSpec } from '../warm/index.ts'
import type { E2bConfig } from './config.ts'
import type { ControlApi, Created } from './control-api.ts'
import { createEnvd, envdAddress, INTERPRETER_PORT, requireInterpreter } from './envd.ts'

/** Where the agent's files go; the home of E2B's default user. */
const GUEST = '/home/user/.cofferdam'
const WORK = '/tmp/work'
const MiB = 1024 * 1024
/** From the request to the first execution's own life. */
const START_LIFE_MS = 120_000

/** Metadata by which a sandbox is found again. */
export const OWNER = 'cofferdam_owner'
export const SLOT = 'cofferdam_slot'

export interface StartParts {
  api: ControlApi
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
    if (config.code_interpreter)
      await requireInterpreter(envdAddress(created, config, INTERPRETER_PORT), inTime)
    const channel = await envd.start(agentCommand(config, spec), spec.slotId, inTime)
    return await handshake(parts, spec, created.sandboxID, channel, inTime)
  } catch (error) {
    if (created !== null) await discard(parts, created.sandboxID)
    signal.throwIfAborted()
    if (
      isCofferdamError(error) &&
      (error.code === 'backend_unavailable' || error.code === 'sandbox_open_failed')
    )
      throw error
    throw new CofferdamError('sandbox_open_failed', 'e2b: the sandbox did not start', { cause: error })
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
  const slot = await handshake(parts, spec, at.created.sandboxID, saidBefore(channel, at.ready), inTime)
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
  { api, config, logger }: StartParts,
  metadata: Record<string, string> & { [SLOT]: string },
  signal: AbortSignal,
): Promise<Created> {
  try {
    return await api.create({ template: config.template, lifeMs: START_LIFE_MS, metadata }, signal)
  } catch (error) {
    if (isRefusal(error)) throw error
    await killBySlot(api, metadata[SLOT]).catch((cause: unknown) =>
      logger.warn(
        { err: cause, slot: metadata[SLOT] },
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

/** The service answered, and made none. */
const isRefusal = (error: unknown): boolean =>
  isCofferdamError(error) && error.details['status'] !== undefined

async function discard({ api, logger }: StartParts, id: string): Promise<void> {
  await api
    .kill(id)
    .catch((error: unknown) =>
      logger.warn({ err: error, sandbox: id }, 'e2b: a failed sandbox was not removed'),
    )
}

function agentCommand(config: E2bConfig, spec: SlotSpec): string[] {
  return agentArgv({
    python: config.python,
    node: config.node,
    guestDir: GUEST,
    language: spec.language,
    preload: spec.preload,
    cell: spec.cell,
    work: WORK,
    // All that a signal could reach is inside the machine, which is the program's own.
    confined: false,
    scope: true,
    env: { HOME: '/home/user', TMPDIR: '/tmp' },
    rlimits: { fsize: spec.limits.disk_mib * MiB },
  })
}

async function handshake(
  { api }: StartParts,
  spec: SlotSpec,
  id: string,
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
    const ready = await session.ready(signal)
    return createRemoteSlot({
      spec,
      session,
      ready,
      handle: { sandbox: id },
      closed: closed.promise,
      keep: (ms) => api.keep(id, ms),
      stderrTail: () => channel.stderrTail(),
      destroy: () => api.kill(id),
    })
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
