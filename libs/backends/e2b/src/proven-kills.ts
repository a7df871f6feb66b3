/** Repeats a kill until the service has confirmed it. */
import type { LeftBehind } from '@cofferdam/backend-remote'
import type { ControlApi } from './control-api.ts'

/** An overloaded service may answer 404 for a new sandbox. Its limit is not documented. */
const YOUNG_MS = 30_000

/** The same API. `left` remembers kills until the sandbox is gone or its longest life is over. */
export function withProvenKills(control: ControlApi, left: LeftBehind, maxLifeMs: number): ControlApi {
  /** Recently created sandboxes that are not known to be gone, oldest first. */
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
