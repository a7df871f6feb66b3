/** Stops a session. If the stop is not certain, it is repeated later (remote/left-behind.ts). */
import type { LeftBehind } from '@cofferdam/backend-remote'
import type { DataPlane } from './data-plane.ts'

/** An overloaded service denies for up to 3 s that it has a session whose Start it has answered. */
const UNKNOWN_MS = 10_000

/** `DataPlane.stop` that remembers sessions that it could not stop. */
export function stopForGood({ stop }: Pick<DataPlane, 'stop'>, left: LeftBehind): DataPlane['stop'] {
  return async (id) => {
    const what = `${id.interpreter} ${id.session}`
    const comesUntilMs = (id.startedAtMs ?? 0) + UNKNOWN_MS
    const isStopped = await left.end(what, () => stop(id))
    if (isStopped || Date.now() >= comesUntilMs) return isStopped
    return await left.end(what, () => stop(id), { comesUntilMs })
  }
}
