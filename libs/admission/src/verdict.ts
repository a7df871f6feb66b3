/** What admission answers, and how it is read from the script's reply. */
import type { CapsUse } from '@cofferdam/contract'
import type { AttemptKey } from './keys.ts'
import { numberAt, textAt, type Reply } from './scripts.ts'

/** The right of one attempt to run now. Ends at `expiresAtMs` unless renewed. JSON-safe. */
export interface Lease extends Readonly<AttemptKey> {
  /** Tells this admission of the attempt from a later one, so that an owner that lost it cannot free it. */
  readonly token: string
  /** Redis clock, milliseconds. As of the admission: renewals move it on in Redis alone. */
  readonly expiresAtMs: number
}

export interface Admitted {
  admitted: true
  /** `before`: an earlier admission of this attempt had charged it already. */
  charged: 'now' | 'before'
  /** Redis clock, milliseconds. Goes into the audit row: the row counts in the window of this moment. */
  chargedAtMs: number
  caps: CapsUse
  lease: Lease
}

export const DIMENSIONS = [
  'tenant_daily',
  'agent_hourly',
  'tenant_rate',
  'tenant_concurrency',
  'unknown',
] as const
export type Dimension = (typeof DIMENSIONS)[number]

/** Refused: the attempt is not charged and holds no lease, whatever came before. */
export interface Refused {
  admitted: false
  /** What stood in the way; `unknown` when Redis (or, for an unseeded tenant, Postgres) could not be asked. */
  dimension: Dimension
  /** When asking again makes sense: the window's end, the first lease's expiry, or now + 60 s for `unknown`. */
  resetsAtMs: number
  /** True when a cap of 0 refused. */
  killSwitch: boolean
  /** Null for `unknown`. */
  caps: CapsUse | null
}

/** The reply of admit.lua as a verdict; `wasCharged` says whether a refused attempt still stands in the ledger. */
export function readVerdict(
  reply: Reply,
  key: AttemptKey,
  token: string,
): { verdict: Admitted | Refused; wasCharged: boolean } {
  if (reply.code === 'denied') {
    const verdict: Refused = {
      admitted: false,
      dimension: readDimension(textAt(reply, 1)),
      resetsAtMs: numberAt(reply, 2),
      killSwitch: numberAt(reply, 3) === 1,
      caps: readUse(reply, 5),
    }
    return { verdict, wasCharged: numberAt(reply, 4) > 0 }
  }
  const verdict: Admitted = {
    admitted: true,
    charged: reply.code === 'charged' ? 'now' : 'before',
    chargedAtMs: numberAt(reply, 1),
    caps: readUse(reply, 3),
    lease: { ...key, token, expiresAtMs: numberAt(reply, 2) },
  }
  return { verdict, wasCharged: true }
}

const readDimension = (text: string): Dimension => DIMENSIONS.find((d) => d === text) ?? 'unknown'

/** Six numbers of a reply, from `from` on: used, cap, end of the day, then of the hour. */
function readUse(reply: Reply, from: number): CapsUse {
  const at = (offset: number) => numberAt(reply, from + offset)
  return {
    tenant_daily: { used: at(0), limit: at(1), resets_at: new Date(at(2)).toISOString() },
    agent_hourly: { used: at(3), limit: at(4), resets_at: new Date(at(5)).toISOString() },
  }
}
