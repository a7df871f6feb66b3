/** Starts stopping-worker.ts and tracks which executions have reached their points. */
import { expect } from 'vitest'
import type { Fleet, FleetWorker } from '../fleet.ts'

const PROGRAM = new URL('./stopping-worker.ts', import.meta.url)

export interface StoppingWorker {
  worker: FleetWorker
  /** Waits until executions have stopped at all of these points. */
  stoppedAt(points: readonly string[]): Promise<void>
  /** Waits until their signals abort. */
  abortedAt(points: readonly string[]): Promise<void>
  /** Lets all executions continue, and waits until those at these points are over. */
  goOn(points: readonly string[]): Promise<void>
}

export async function startStoppingWorker(
  fleet: Fleet,
  env: Record<string, string>,
  prefix: string,
): Promise<StoppingWorker> {
  const worker = await fleet.startWorker({ ...env, STOP_PREFIX: prefix }, PROGRAM)
  const stopped = new Set<unknown>()
  const aborted = new Set<unknown>()
  const over = new Set<unknown>()
  worker.process.on('message', (message) => {
    if (typeof message !== 'object') return
    if ('stopped' in message) stopped.add(message.stopped)
    if ('aborted' in message) aborted.add(message.aborted)
    if ('over' in message) over.add(message.over)
  })
  const allOf = async (points: readonly string[], seen: ReadonlySet<unknown>): Promise<void> => {
    const missing = () => points.filter((point) => !seen.has(point))
    await expect.poll(missing, { timeout: 60_000, interval: 20, message: worker.log() }).toEqual([])
  }
  return {
    worker,
    stoppedAt: (points) => allOf(points, stopped),
    abortedAt: (points) => allOf(points, aborted),
    async goOn(points) {
      worker.process.send('go on')
      await allOf(points, over)
    },
  }
}
