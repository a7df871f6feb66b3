/** What this host knows of a run in a machine, beside the agent's report. */
import { unlessAborted } from '@cofferdam/contract'
import type { RunWatch } from '@cofferdam/sandbox/backend'
import type { ControlChannel } from './control-channel.ts'
import type { MachineGroup } from './machine-group.ts'

/** After the agent's channel has ended, for the word why. */
const LAST_WORD_MS = 2000

/** The agent counts. Both kernels tell if they killed for memory: the guest a program, the host a machine. */
export const watchMachine = (control: ControlChannel, group: MachineGroup): RunWatch => ({
  addTo: (exit) => exit,
  usage: () => null,
  killedForMemory: async () => group.oomKills() > 0 || ((await lastWord(control))?.oomKills ?? 0) > 0,
  stop: () => undefined,
})

export const lastWord = (control: ControlChannel): Promise<Awaited<ControlChannel['ended']>> =>
  unlessAborted(control.ended, AbortSignal.timeout(LAST_WORD_MS)).catch(() => null)
