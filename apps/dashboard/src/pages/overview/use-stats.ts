/** The figures of the last hour by minute, and of the day so far. */
import type { Stats } from '@cofferdam/client'
import { useRef } from 'preact/hooks'
import { read } from '../../api/call.ts'
import { useResource, type Resource } from '../../api/use-resource.ts'

export interface Figures {
  /** By minute and ending. */
  hour: Stats
  /** Since 00:00 UTC, by hour. */
  day: Stats
}

const EVERY_MS = 20_000
/** The day has up to 50,000 rows to read, and its sum moves slowly. */
const DAY_EVERY_MS = 120_000
const DAY_MS = 86_400_000

/**
 * Figures of all tenants, or of one. Sends one request after the other, because the API runs only two at a
 * time for a caller.
 */
export function useStats(tenantId: string | null): Resource<Figures> {
  const kept = useRef<{ of: string | null; atMs: number; day: Stats } | null>(null)
  return useResource(
    tenantId ?? '',
    async (signal) => {
      const query = { tenant_id: tenantId }
      const hour = await read<Stats>('/v1/stats', { query: { ...query, group_by: 'ending' }, signal })
      // Today is the day of the last step, by the API's clock. Minus 1 ms, because that step may end exactly
      // at the next midnight.
      const atMs = Date.parse(hour.ends_at) - 1
      const midnightMs = Math.floor(atMs / DAY_MS) * DAY_MS
      const last = kept.current
      const isFresh =
        last !== null && last.of === tenantId && last.atMs >= midnightMs && atMs - last.atMs < DAY_EVERY_MS
      if (isFresh) return { hour, day: last.day }
      const from = new Date(midnightMs).toISOString()
      const day = await read<Stats>('/v1/stats', { query: { ...query, from, step: '1h' }, signal })
      kept.current = { of: tenantId, atMs, day }
      return { hour, day }
    },
    EVERY_MS,
  )
}
