/**
 * Starts a machine until its interpreter waits. The program comes when the slot is bound.
 *
 *   record → clone of a template, or what was paused → thaw → R, if it is a clone → slot
 *   any failure or abort: killed and removed, then thrown
 */
import type { Writable } from 'node:stream'
import { CofferdamError, isCofferdamError, unlessAborted } from '@cofferdam/contract'
import {
  createGuestSlot,
  identityOf,
  type GuestSlot,
  type Records,
  type RunWatch,
} from '@cofferdam/sandbox/backend'
import { createGuestSession, type GuestReady } from '@cofferdam/sandbox/guest'
import type { SlotSpec } from '@cofferdam/sandbox/warm'
import { createControlChannel, type ControlChannel } from './control-channel.ts'
import {
  AGENT_PORT,
  CONTROL_PORT,
  type Machine,
  type MachineLease,
  type MicrovmEngine,
  type SavedMachine,
} from './engine.ts'
import type { ImageManifest, MicrovmImage } from './image.ts'
import type { Templates } from './templates.ts'
import { againWords, thawWords } from './thaw.ts'

/** After the agent's channel has ended, for the word why. */
const LAST_WORD_MS = 2000

export interface StartParts {
  engine: MicrovmEngine
  templates: Templates
  image: () => Promise<MicrovmImage>
  records: () => Promise<Records>
  place: string
  readyTimeoutMs: number
}

/** A slot whose machine can be saved between two programs. */
export interface MachineSlot extends GuestSlot {
  /** Digests of the image that it was booted from. */
  readonly image: ImageManifest['sha256']
  /** What the agent said when it began. */
  readonly ready: GuestReady
  /** Stops the machine and writes all of it to `to`. If it rejects, the machine is whole, but stopped. */
  save(to: Writable, signal: AbortSignal): Promise<void>
  /** Lets a stopped machine run on, with new random numbers and the time. Destroys one that does not. */
  goOn(): Promise<void>
}

/** How a machine begins. */
interface Beginning {
  image: ImageManifest['sha256']
  machine: (lease: MachineLease, signal: AbortSignal) => Promise<Machine>
  words: { nonce: string }
  /** Of an agent that is there already. */
  resumed?: GuestReady
}

/** Throws `sandbox_open_failed` or the reason of `signal`, and then leaves nothing. */
export async function startSlot(
  parts: StartParts,
  spec: SlotSpec,
  signal: AbortSignal,
): Promise<MachineSlot> {
  const template = await unlessAborted(parts.templates.get(spec.limits), signal)
  const image = (await parts.image()).manifest.sha256
  const machine: Beginning['machine'] = (lease, until) => parts.engine.restore(template, lease, until)
  return await begin(parts, spec, { image, machine, words: thawWords(spec) }, signal)
}

/**
 * The same for what `save` wrote. `isFork`: another machine goes on from this state as well, so every process
 * but the agent is ended.
 */
export async function resumeSlot(
  parts: StartParts,
  spec: SlotSpec,
  what: { saved: SavedMachine; ready: GuestReady; isFork: boolean; image: ImageManifest['sha256'] },
  signal: AbortSignal,
): Promise<MachineSlot> {
  const { engine } = parts
  if (engine.resume === undefined)
    throw new CofferdamError('capability_missing', `The engine ${engine.name} resumes no machine.`)
  const { image, saved, isFork, ready: resumed } = what
  const machine = engine.resume.bind(engine, saved)
  return await begin(parts, spec, { image, machine, words: againWords(isFork), resumed }, signal)
}

async function begin(
  parts: StartParts,
  spec: SlotSpec,
  { image, words, resumed, ...how }: Beginning,
  signal: AbortSignal,
): Promise<MachineSlot> {
  const { place } = parts
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(parts.readyTimeoutMs)])
  const records = await parts.records()
  const folder = await records.create(spec.owner, spec.slotId)
  const lease: MachineLease = {
    folder,
    id: spec.slotId,
    async started(pid) {
      const found = identityOf(pid, place)
      if (found === null) throw new CofferdamError('sandbox_open_failed', 'The machine ended at once.')
      await records.save(spec.owner, spec.slotId, { ...found, ownsPids: true, cgroups: [] })
    },
  }
  let machine: Machine | null = null
  const destroy = async (): Promise<void> => {
    await machine?.kill()
    await records.remove(spec.owner, spec.slotId)
  }
  try {
    const begun = await how.machine(lease, inTime)
    machine = begun
    const control = createControlChannel(await begun.connect(CONTROL_PORT))
    const stream = await begun.connect(AGENT_PORT)
    await control.thaw(words, inTime)
    const closed = Promise.withResolvers<CofferdamError>()
    const session = createGuestSession({
      readable: stream,
      writable: stream,
      onClosed: closed.resolve,
      ...(resumed === undefined ? {} : { resumed }),
    })
    let ready: GuestReady
    try {
      ready = await session.ready(inTime)
    } catch (error) {
      session.close()
      throw await withLastWord(error, control)
    }
    const slot = createGuestSlot({
      spec,
      session,
      handle: { slot: spec.slotId },
      closed: closed.promise,
      stderrTail: () => control.stderr(),
      watch: () => watchRun(control),
      destroy,
    })
    return Object.assign(slot, {
      image,
      ready,
      save: async (to: Writable, until: AbortSignal) => {
        if (begun.save === undefined)
          throw new CofferdamError('capability_missing', 'The engine saves no machine.')
        await begun.save(to, until)
      },
      async goOn() {
        try {
          await begun.goOn?.()
          await control.thaw(againWords(false), AbortSignal.timeout(parts.readyTimeoutMs))
        } catch (error) {
          await slot.destroy()
          throw new CofferdamError('sandbox_lost', 'The machine did not run on.', { cause: error })
        }
      },
    })
  } catch (error) {
    await destroy()
    throw signal.aborted ? signal.reason : explained(error)
  }
}

/** The agent counts; the first process of the machine only says why the agent ended. */
function watchRun(control: ControlChannel): RunWatch {
  return {
    addTo: (exit) => exit,
    usage: () => null,
    killedForMemory: async () => ((await lastWord(control))?.oomKills ?? 0) > 0,
    stop: () => undefined,
  }
}

const lastWord = (control: ControlChannel): Promise<Awaited<ControlChannel['ended']>> =>
  unlessAborted(control.ended, AbortSignal.timeout(LAST_WORD_MS)).catch(() => null)

async function withLastWord(error: unknown, control: ControlChannel): Promise<unknown> {
  if (!isCofferdamError(error) || error.code !== 'sandbox_lost') return error
  const said = (await lastWord(control))?.stderr.trim().split('\n').at(-1) ?? ''
  return new CofferdamError('sandbox_open_failed', `The agent ended${said === '' ? '' : `: ${said}`}.`, {
    cause: error,
  })
}

function explained(error: unknown): unknown {
  if (isCofferdamError(error)) return error
  const isLate = error instanceof DOMException && error.name === 'TimeoutError'
  const why = isLate ? 'the agent was not ready in time' : error instanceof Error ? error.message : 'unknown'
  return new CofferdamError('sandbox_open_failed', `The machine could not be started: ${why}`, {
    cause: error,
  })
}
