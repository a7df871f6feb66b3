/**
 * Starts a machine until its interpreter waits. The program comes when the slot is bound.
 *
 *   record → clone → thaw → R → slot        any failure or abort: killed and removed, then thrown
 */
import { CofferdamError, isCofferdamError, unlessAborted } from '@cofferdam/contract'
import {
  createGuestSlot,
  identityOf,
  type GuestSlot,
  type Records,
  type RunWatch,
} from '@cofferdam/sandbox/backend'
import { createGuestSession } from '@cofferdam/sandbox/guest'
import type { SlotSpec } from '@cofferdam/sandbox/warm'
import { createControlChannel, type ControlChannel } from './control-channel.ts'
import { AGENT_PORT, CONTROL_PORT, type Machine, type MachineLease, type MicrovmEngine } from './engine.ts'
import type { Templates } from './templates.ts'
import { thawWords } from './thaw.ts'

/** After the agent's channel has ended, for the word why. */
const LAST_WORD_MS = 2000

export interface StartParts {
  engine: MicrovmEngine
  templates: Templates
  records: () => Promise<Records>
  place: string
  readyTimeoutMs: number
}

/** Throws `sandbox_open_failed` or the reason of `signal`, and then leaves nothing. */
export async function startSlot(parts: StartParts, spec: SlotSpec, signal: AbortSignal): Promise<GuestSlot> {
  const { engine, place } = parts
  const template = await unlessAborted(parts.templates.get(spec.limits), signal)
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
    machine = await engine.restore(template, lease, inTime)
    const control = createControlChannel(await machine.connect(CONTROL_PORT))
    const stream = await machine.connect(AGENT_PORT)
    await control.thaw(thawWords(spec), inTime)
    const closed = Promise.withResolvers<CofferdamError>()
    const session = createGuestSession({ readable: stream, writable: stream, onClosed: closed.resolve })
    try {
      await session.ready(inTime)
    } catch (error) {
      session.close()
      throw await withLastWord(error, control)
    }
    return createGuestSlot({
      spec,
      session,
      handle: { slot: spec.slotId },
      closed: closed.promise,
      stderrTail: () => control.stderr(),
      watch: () => watchRun(control),
      destroy,
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
