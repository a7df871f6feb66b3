/**
 * Starts a machine until its interpreter waits. The program comes when the slot is bound.
 *
 *   record, cgroup → clone → thaw → R → slot      any failure or abort: killed and removed, then thrown
 */
import { CofferdamError, isCofferdamError, unlessAborted } from '@cofferdam/contract'
import {
  createGuestSlot,
  identityOf,
  type Cgroups,
  type GuestSlot,
  type Records,
} from '@cofferdam/sandbox/backend'
import { createGuestSession } from '@cofferdam/sandbox/guest'
import type { SlotSpec } from '@cofferdam/sandbox/warm'
import { createControlChannel, type ControlChannel } from './control-channel.ts'
import { AGENT_PORT, CONTROL_PORT, type Machine, type MachineLease, type MicrovmEngine } from './engine.ts'
import { createMachineGroup } from './machine-group.ts'
import type { MachineMemory } from './machine-memory.ts'
import { lastWord, watchMachine } from './machine-watch.ts'
import { openFailure } from './open-failure.ts'
import { CHANGED, type Templates } from './templates.ts'
import { thawWords } from './thaw.ts'

export interface StartParts {
  engine: MicrovmEngine
  templates: Templates
  records: () => Promise<Records>
  /** Null if this worker can make none. */
  cgroups: Cgroups | null
  memory: MachineMemory
  place: string
  readyTimeoutMs: number
}

/** Throws `sandbox_open_failed` or the reason of `signal`, and then leaves nothing. */
export async function startSlot(parts: StartParts, spec: SlotSpec, signal: AbortSignal): Promise<GuestSlot> {
  const { engine, templates, cgroups, memory, place } = parts
  const template = await unlessAborted(templates.get(spec.limits), signal)
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(parts.readyTimeoutMs)])
  const records = await parts.records()
  const group = createMachineGroup(cgroups, spec.slotId, template.spec)
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
        // Meanwhile the machine loads its state. No program runs in it before its slot is bound.
        group.join(pid)
      },
    }
    machine = await engine.restore(template, lease, inTime)
    const control = createControlChannel(await machine.connect(CONTROL_PORT))
    const stream = await machine.connect(AGENT_PORT)
    await control.thaw(thawWords(spec), inTime)
    const closed = Promise.withResolvers<CofferdamError>()
    const session = createGuestSession({ readable: stream, writable: stream, onClosed: closed.resolve })
    try {
      await Promise.all([session.ready(inTime), group.joined])
    } catch (error) {
      session.close()
      throw await withLastWord(error, control)
    }
    if (!templates.isUnchanged(template)) throw new CofferdamError('sandbox_open_failed', CHANGED)
    void memory.look(pid)
    return createGuestSlot({
      spec,
      session,
      handle: { slot: spec.slotId },
      closed: closed.promise,
      stderrTail: () => control.stderr(),
      isSound: () => templates.isUnchanged(template),
      watch: () => watchMachine(control, group),
      destroy,
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
