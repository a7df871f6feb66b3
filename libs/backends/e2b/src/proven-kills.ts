/** Kills that count once they are proven: what the service did not confirm is left behind, and asked for again. */
import type { LeftBehind } from '@cofferdam/backend-remote'
import type { ControlApi } from './control-api.ts'

/** So long a service that is behind itself may not know (404) what it made. Nobody says how long; asking again costs a call per janitor round. */
const YOUNG_MS = 30_000

/** The same API, whose kills are remembered in `left` until the sandbox is gone, or its longest life over. */
export function withProvenKills(control: ControlApi, left: LeftBehind, maxLifeMs: number): ControlApi {
  /** Sandboxes that were made here so lately and are not known to be gone, oldest first. */
  const youngUntilMs = new Map<string, number>()

  return {
    ...control,
    async create(wish, signal) {
      const created = await control.create(wish, signal)
      const nowMs = Date.now()
      for (const [id, untilMs] of youngUntilMs) if (untilMs <= nowMs) youngUntilMs.delete(id)
      youngUntilMs.set(created.sandboxID, nowMs + YOUNG_MS)
      return created
    },
    async kill(id) {
      const end = (comesUntilMs: number): Promise<boolean> =>
        left.end(id, () => control.kill(id), { comesUntilMs, endsAtMs: Date.now() + maxLifeMs })
      const isYoungUntilMs = youngUntilMs.get(id)
      const wasKilled = await end(0)
      youngUntilMs.delete(id)
      return wasKilled || isYoungUntilMs === undefined ? wasKilled : await end(isYoungUntilMs)
    },
  }
}
