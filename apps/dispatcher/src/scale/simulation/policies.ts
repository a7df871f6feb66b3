/** The rules that the simulation compares. */
import { createSparePlan } from '../spare-plan.ts'
import { spareSettingsSchema, type SpareSettings } from '../spare-settings.ts'
import type { Policy } from './simulate-pool.ts'

/** The interval and the bounds of the stats adapter in GKE's sample. */
const SAMPLE = { everySeconds: 15, min: 2, max: 50 }

const sampleOf = (wanted: number): number => Math.min(SAMPLE.max, Math.max(SAMPLE.min, wanted))

/** Our rule, with the interval of the scaler. */
export function ourRule(settings: Partial<SpareSettings> = {}, everySeconds = 5): Policy {
  const plan = createSparePlan(spareSettingsSchema.parse(settings), 0)
  return {
    everySeconds,
    arrived: (nowSeconds) => plan.arrived(nowSeconds * 1000),
    coldStart: (tookSeconds, nowSeconds) => plan.sandboxReady(tookSeconds * 1000, nowSeconds * 1000),
    replicas: ({ nowSeconds, depth, replicas }) => plan.next(nowSeconds * 1000, depth, replicas),
  }
}

/** Our rule, applied by KEDA: a scrape every 15 s, then a sync of the HPA every 15 s. */
export function ourRuleByKeda(settings: Partial<SpareSettings> = {}): Policy {
  const rule = ourRule(settings)
  let scraped = SAMPLE.min
  return {
    ...rule,
    everySeconds: 15,
    replicas(view) {
      const applied = scraped
      scraped = rule.replicas({ ...view, replicas: scraped })
      return applied
    },
  }
}

/** GKE's sample as it is: no item is acknowledged, so `pending` is the number of running sessions. */
export const sampleRule = (): Policy => ({
  everySeconds: SAMPLE.everySeconds,
  replicas: ({ depth, running }) => sampleOf(depth + running),
})

/** The sample's formula with workers that acknowledge at once, as ours do: `pending` is 0. */
export const sampleRuleWithAcks = (): Policy => ({
  everySeconds: SAMPLE.everySeconds,
  replicas: ({ depth }) => sampleOf(depth),
})
