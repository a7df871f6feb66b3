/** The ledger entry of a charge, as admit.lua and recharge.lua write it. */

export interface ChargeEntry {
  /** Buckets of the windows that it counts in. */
  day: number
  hour: number
  /** Redis clock, milliseconds. */
  chargedAtMs: number
  /** Null in an entry of an earlier version. */
  agentId: string | null
}

/** Reads `day:hour:charged_at:agent:token that charged:token that owns`. Names and tokens have no colon. */
export function readChargeEntry(entry: string): ChargeEntry {
  const [day, hour, chargedAtMs, agentId = null, , owner] = entry.split(':')
  return {
    day: Number(day),
    hour: Number(hour),
    chargedAtMs: Number(chargedAtMs),
    agentId: owner === undefined ? null : agentId,
  }
}
