/** How long the service lets a session live: an absolute time from its start. */
import type { SandboxSpec } from '@cofferdam/contract'
import type { AgentcoreConfig } from './config.ts'

/** Added to the hard deadline. A live worker ends its sessions itself; this is for workers that died. */
export const LIFE_MARGIN_MS = 60_000
/** The service's maximum is 8 hours. Less than a minute is of no use. */
export const LIFE_MS = { least: 60_000, most: 28_800_000 }

/** Life of a session for one execution. */
export const jobLifeMs = ({ limits }: Pick<SandboxSpec, 'limits'>): number =>
  Math.max(LIFE_MS.least, limits.hard_timeout_ms + LIFE_MARGIN_MS)

/**
 * Life of a warm session: its longest wait plus the longest call or, if sessions are kept and that is longer,
 * a kept session's life. At most the service's maximum.
 */
export function warmLifeMs(settings: AgentcoreConfig, keepsTurns: boolean): number {
  const usedMs = Math.max(settings.call_max_ms + LIFE_MARGIN_MS, keepsTurns ? settings.kept_life_ms : 0)
  return Math.min(settings.warm_max_age_ms + usedMs, LIFE_MS.most)
}
