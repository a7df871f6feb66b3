/** Ends the VMM of a dead worker: the recorded process, or every one that carries the machine's name. */
import { CofferdamError } from '@cofferdam/contract'
import { findMarked, isRunning, killExactly, thisPlace, waitGone } from '@cofferdam/sandbox/backend'
import type { LeftMachine } from './engine.ts'

/** A large machine takes long to end, because the kernel frees its memory first. */
const GONE_MS = 20_000

export async function killLeftMachine({ id, process }: LeftMachine): Promise<boolean> {
  const place = await thisPlace()
  const found = process === null ? await findMarked(id, place) : [process]
  const running = found.filter((one) => isRunning(one, place))
  for (const one of running) killExactly(one, place)
  for (const one of running)
    if (!(await waitGone(one, place, GONE_MS)))
      throw new CofferdamError('internal', `the machine ${id} has not ended after SIGKILL (pid ${one.pid})`)
  return running.length > 0
}
