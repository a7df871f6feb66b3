/** The answers of admission, read from a script's reply. */
import { CAP_DIMENSIONS, type CapsUse } from '@cofferdam/contract'
import type { AttemptKey } from './keys.ts'
import { numberAt, textAt, type Reply } from './scripts.ts'

/** The right of one attempt to run now. Expires at `expiresAtMs` unless it is renewed. JSON-safe. */
export interface Lease extends Readonly<AttemptKey> {
  /**
   * Distinguishes this admission from a later one, so that an owner that lost the attempt cannot release the
   * later lease.
   */
  readonly token: string
  /** Expiry as set at admission, by the Redis clock in milliseconds. A renewal changes it only in Redis. */
  readonly expiresAtMs: number
}

export interface Admitted {
  admitted: true
  /** `before`: an earlier admission of this attempt had already charged it. */
  charged: 'now' | 'before'
  /** Redis clock, milliseconds. The audit row has the same time and counts in the window of that time. */
  chargedAtMs: number
  caps: CapsUse
  lease: Lease
  /** The run of the Redis server whose counters have the charge. */
  serverRun: string
}

const DIMENSIONS = [...CAP_DIMENSIONS, 'tenant_concurrency'] as const
export type Dimension = (typeof DIMENSIONS)[number]

/**
 * The attempt was refused. It has no lease. It has no charge either, unless another owner is running it now.
 */
export interface Refused {
  admitted: false
  /** The limit that refused. `unknown` if Redis (or Postgres, for an unseeded tenant) could not be asked. */
  dimension: Dimension
  /**
   * When to ask again: when the window ends, the first lease expires, or the rate limit allows another
   * (`tenant_rate`). Now + 60 s for `unknown`.
   */
  resetsAtMs: number
  /** True when a cap of 0 refused. */
  killSwitch: boolean
  /** True if the rest of the cap is reserved for running attempts. Some may be free before `resetsAtMs`. */
  held?: true
  /** Null for `unknown`. */
  caps: CapsUse | null
}

/**
 * The reply of admit.lua as a verdict. `orphan` is the token of a charge that a refused attempt still has
 * although nobody works on it any more, or ''.
 */
export function readVerdict(
  reply: Reply,
  key: AttemptKey,
  { token, serverRun }: { token: string; serverRun: string },
): { verdict: Admitted | Refused; orphan: string } {
  if (reply.code === 'denied') {
    const verdict: Refused = {
      admitted: false,
      dimension: readDimension(textAt(reply, 1)),
      resetsAtMs: numberAt(reply, 2),
      killSwitch: numberAt(reply, 3) === 1,
      ...(numberAt(reply, 5) === 1 ? { held: true } : {}),
      caps: readUse(reply, 6),
    }
    return { verdict, orphan: textAt(reply, 4) }
  }
  const verdict: Admitted = {
    admitted: true,
    charged: reply.code === 'charged' ? 'now' : 'before',
    chargedAtMs: numberAt(reply, 1),
    caps: readUse(reply, 3),
    lease: { ...key, token, expiresAtMs: numberAt(reply, 2) },
    serverRun,
  }
  return { verdict, orphan: '' }
}

const readDimension = (text: string): Dimension => DIMENSIONS.find((d) => d === text) ?? 'unknown'

/**
 * Ten numbers of a reply, starting at `from`: used, cap and end of the day, then of the hour, then used and
 * cap of the day's CPU and cost, with a cap of -1 where there is none.
 */
function readUse(reply: Reply, from: number): CapsUse {
  const at = (offset: number) => numberAt(reply, from + offset)
  const resets_at = new Date(at(2)).toISOString()
  return {
    tenant_daily: { used: at(0), limit: at(1), resets_at },
    agent_hourly: { used: at(3), limit: at(4), resets_at: new Date(at(5)).toISOString() },
    ...(at(7) < 0 ? {} : { tenant_daily_cpu: { used: at(6) / 1000, limit: at(7) / 1000, resets_at } }),
    ...(at(9) < 0 ? {} : { tenant_daily_cost: { used: at(8), limit: at(9), resets_at } }),
  }
}
