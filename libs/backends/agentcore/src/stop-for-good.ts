/** A Stop whose session is gone for good afterwards, or asked about again (remote/left-behind.ts). */
import type { LeftBehind } from '@cofferdam/backend-remote'
import type { DataPlane } from './data-plane.ts'

/** A service that is behind itself says for seconds that it has no session of a start that it answered (3 s are allowed for). */
const UNKNOWN_MS = 10_000

/** `DataPlane.stop` that remembers what it could not stop. */
export function stopForGood({ stop }: Pick<DataPlane, 'stop'>, left: LeftBehind): DataPlane['stop'] {
  return async (id) => {
    const what = `${id.interpreter} ${id.session}`
    const comesUntilMs = (id.startedAtMs ?? 0) + UNKNOWN_MS
    const isStopped = await left.end(what, () => stop(id))
    if (isStopped || Date.now() >= comesUntilMs) return isStopped
    return await left.end(what, () => stop(id), { comesUntilMs })
  }
}
