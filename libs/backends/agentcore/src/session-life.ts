/** How long the service lets a session live: an absolute time from its start, whatever is done in it. */
import type { SandboxSpec } from '@cofferdam/contract'
import type { AgentcoreConfig } from './config.ts'

/** Beyond the hard deadline: the worker ends a session itself, the service's clock is for workers that died. */
export const LIFE_MARGIN_MS = 60_000
/** Bounds of the service: 8 hours for a session, and a minute as the least that is of use. */
export const LIFE_MS = { least: 60_000, most: 28_800_000 }

/** Of a session for one execution. */
export const jobLifeMs = ({ limits }: Pick<SandboxSpec, 'limits'>): number =>
  Math.max(LIFE_MS.least, limits.hard_timeout_ms + LIFE_MARGIN_MS)

/** Of one that waits: then it can serve any program that is one call, and any turn where those are kept. */
export function warmLifeMs(settings: AgentcoreConfig, keepsTurns: boolean): number {
  const usedMs = Math.max(settings.call_max_ms + LIFE_MARGIN_MS, keepsTurns ? settings.kept_life_ms : 0)
  return Math.min(settings.warm_max_age_ms + usedMs, LIFE_MS.most)
}
