/**
 * What the vendor may still run although its end was asked for: kills that it did not confirm, and creates whose answer was lost and
 * that a look at once did not find. Its owner lives, so no janitor sweeps it: it is asked for again with each of the janitor's rounds,
 * until it is gone or its life at the vendor is over.
 */
import type { ControlApi } from './control-api.ts'

/** More at once are a service that is out; what is left out ends by the vendor's own clock. */
const LEFT_MAX = 1000

export interface LeftBehind {
  /** The same API, whose kills are remembered until they are confirmed. */
  readonly api: ControlApi
  /** Kills whatever was made under this metadata, now and, for `lifeMs` more, whenever `endAll` looks again; true when something was there. */
  killMade(metadata: Record<string, string>, lifeMs: number): Promise<boolean>
  /** Asks again for all that is remembered. Never throws. */
  endAll(): Promise<void>
}

/** Creates an empty one; no sandbox lives longer than `longestMs`. */
export function createLeftBehind(api: ControlApi, longestMs: number): LeftBehind {
  const unkilled = new Map<string, number>()
  const unseen = new Map<string, { metadata: Record<string, string>; untilMs: number }>()

  async function kill(id: string): Promise<boolean> {
    if (unkilled.size < LEFT_MAX) unkilled.set(id, unkilled.get(id) ?? Date.now() + longestMs)
    const wasThere = await api.kill(id)
    unkilled.delete(id)
    return wasThere
  }

  async function look(metadata: Record<string, string>): Promise<boolean> {
    const found = await api.list(metadata)
    const killed = await Promise.all(found.map(({ sandboxID }) => kill(sandboxID)))
    return killed.includes(true)
  }

  return {
    api: { ...api, kill },
    async killMade(metadata, lifeMs) {
      if (unseen.size < LEFT_MAX)
        unseen.set(JSON.stringify(metadata), { metadata, untilMs: Date.now() + lifeMs })
      return await look(metadata)
    },
    async endAll() {
      const nowMs = Date.now()
      for (const [id, untilMs] of unkilled) if (untilMs < nowMs) unkilled.delete(id)
      for (const [key, { untilMs }] of unseen) if (untilMs < nowMs) unseen.delete(key)
      await Promise.allSettled([
        ...[...unkilled.keys()].map((id) => kill(id)),
        ...[...unseen.values()].map(({ metadata }) => look(metadata)),
      ])
    },
  }
}
