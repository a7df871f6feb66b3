/**
 * Notices the end of a VMM. The jailer has left, so no parent of ours is told: its log ends with it, and its
 * process is looked at now and then. Nobody learns its exit code.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isRunning, thisPlace } from '@cofferdam/sandbox/backend'
import type { MachineExit } from '../engine.ts'
import { wasKilledForMemory } from './end-machine.ts'
import type { StartedVmm } from './start-machine.ts'

const LOOK_MS = 250

/** Resolves when the VMM has ended, or with the signal. Never rejects. */
export async function watchExit(
  { process, log, jail }: Pick<StartedVmm, 'process' | 'log' | 'jail'>,
  stop: AbortSignal,
): Promise<MachineExit> {
  const place = await thisPlace()
  let logEnds: Promise<void> | null = log.ended
  while (!stop.aborted && isRunning(process, place)) {
    const look = sleep(LOOK_MS, undefined, { ref: false, signal: stop }).catch(() => {})
    await (logEnds === null ? look : Promise.race([look, logEnds.then(() => (logEnds = null))]))
  }
  return { code: null, signal: null, oom: await wasKilledForMemory(jail.cgroup) }
}
