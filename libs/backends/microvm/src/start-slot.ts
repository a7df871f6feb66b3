/**
 * Starts a machine and waits until its interpreter is ready. The program comes when the slot is bound. R is
 * the agent's first frame.
 *
 *   record, cgroup → clone of a template, or what was paused → thaw → R, if it is a clone → slot
 *   any failure or abort: killed and removed, then thrown
 */
import type { Writable } from 'node:stream'
import { CofferdamError, isCofferdamError, unlessAborted } from '@cofferdam/contract'
import {
  createGuestSlot,
  identityOf,
  type Cgroups,
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
  type MachineSpec,
  type MicrovmEngine,
  type SavedMachine,
} from './engine.ts'
import type { ImageManifest, MicrovmImage } from './image.ts'
import { createMachineGroup, type MachineGroup } from './machine-group.ts'
import type { MachineMemory } from './machine-memory.ts'
import { openFailure } from './open-failure.ts'
import { CHANGED, type Templates } from './templates.ts'
import { againWords, thawWords } from './thaw.ts'

export interface StartParts {
  engine: MicrovmEngine
  templates: Templates
  image: () => Promise<MicrovmImage>
  records: () => Promise<Records>
  /** Null if this worker can make none. */
  cgroups: Cgroups | null
  memory: MachineMemory
  place: string
  readyTimeoutMs: number
}

/** A slot whose machine can be saved between two programs. */
export interface MachineSlot extends GuestSlot {
  /** Digests of the image that it was booted from. */
  readonly image: ImageManifest['sha256']
  /** The agent's ready frame. */
  readonly ready: GuestReady
  /** Stops the machine and writes all of it to `to`. If it rejects, the machine is whole, but stopped. */
  save(to: Writable, signal: AbortSignal): Promise<void>
  /**
   * Lets a stopped machine run on, with new random numbers and the time. Destroys the machine if that fails.
   */
  goOn(): Promise<void>
}

/** How a machine begins. */
interface Beginning {
  image: ImageManifest['sha256']
  size: MachineSpec
  /** False if somebody changed the files that the machine maps. */
  isSound: () => boolean
  machine: (lease: MachineLease, signal: AbortSignal) => Promise<Machine>
  words: { nonce: string }
  /** The first frame of an agent that already runs, because an agent sends it only once. */
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
  const isSound = (): boolean => parts.templates.isUnchanged(template)
  const how = { image, size: template.spec, isSound, machine, words: thawWords(spec) }
  return await begin(parts, spec, how, signal)
}

/**
 * Like `startSlot`, but starts from the state that `save` wrote. `isFork`: another machine goes on from this
 * state as well, so every process but the agent is ended.
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
  // A resumed machine has all its memory, so it needs no file of a template.
  const how = { image, size: saved.spec, isSound: () => true, machine, words: againWords(isFork), resumed }
  return await begin(parts, spec, how, signal)
}

async function begin(
  parts: StartParts,
  spec: SlotSpec,
  { image, size, isSound, words, resumed, ...how }: Beginning,
  signal: AbortSignal,
): Promise<MachineSlot> {
  const { cgroups, memory, place } = parts
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(parts.readyTimeoutMs)])
  const records = await parts.records()
  const group = createMachineGroup(cgroups, spec.slotId, size)
  let machine: Machine | null = null
  let pid = -1
  const destroy = async (): Promise<void> => {
    await machine?.kill()
    await group.remove()
    await records.remove(spec.owner, spec.slotId)
  }
  try {
    const folder = await records.create(spec.owner, spec.slotId)
    const lease: MachineLease = {
      folder,
      id: spec.slotId,
      async started(started) {
        pid = started
        const found = identityOf(pid, place)
        if (found === null) throw new CofferdamError('sandbox_open_failed', 'The machine ended at once.')
        const record = { ...found, ownsPids: true, cgroups: [...group.folders] }
        await records.save(spec.owner, spec.slotId, record)
        // Not awaited: meanwhile the machine loads its state, and no program runs in it before its slot is
        // bound.
        group.join(pid)
      },
    }
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
      const [said] = await Promise.all([session.ready(inTime), group.joined])
      ready = said
    } catch (error) {
      session.close()
      throw await withLastWord(error, control)
    }
    if (!isSound()) throw new CofferdamError('sandbox_open_failed', CHANGED)
    void memory.look(pid)
    const slot = createGuestSlot({
      spec,
      session,
      handle: { slot: spec.slotId },
      closed: closed.promise,
      stderrTail: () => control.stderr(),
      isSound,
      watch: () => watchMachine(control, group),
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
    throw signal.aborted ? signal.reason : openFailure('The machine could not be started', error)
  }
}

async function withLastWord(error: unknown, control: ControlChannel): Promise<unknown> {
  if (!isCofferdamError(error) || error.code !== 'sandbox_lost') return error
  const said = (await lastWord(control))?.stderr.trim().split('\n').at(-1) ?? ''
  return new CofferdamError('sandbox_open_failed', `The agent ended${said === '' ? '' : `: ${said}`}.`, {
    cause: error,
  })
}

/** How long to wait for the first process to report why the agent's channel ended. */
const LAST_WORD_MS = 2000

/**
 * The agent measures usage. If a program was killed for memory, the guest's kernel counts it. If the VMM was,
 * the host's kernel counts it.
 */
const watchMachine = (control: ControlChannel, group: MachineGroup): RunWatch => ({
  addTo: (exit) => exit,
  usage: () => null,
  killedForMemory: async () => group.oomKills() > 0 || ((await lastWord(control))?.oomKills ?? 0) > 0,
  stop: () => undefined,
})

const lastWord = (control: ControlChannel): Promise<Awaited<ControlChannel['ended']>> =>
  unlessAborted(control.ended, AbortSignal.timeout(LAST_WORD_MS)).catch(() => null)
