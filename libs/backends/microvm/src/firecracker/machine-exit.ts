/**
 * Notices the end of a VMM. The jailer that started it has exited, so this process is not its parent and gets
 * no exit event or exit code. Instead it watches for the end of the VMM's log and polls the VMM's process.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isRunning, thisPlace } from '@cofferdam/sandbox/backend'
import type { MachineExit } from '../engine.ts'
import { wasKilledForMemory } from './end-machine.ts'
import type { StartedVmm } from './start-machine.ts'

const LOOK_MS = 250

/** Resolves when the VMM has ended or `stop` aborts. Never rejects. */
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
