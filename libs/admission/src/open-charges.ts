/**
 * What a window was charged is what the audit rows have of it and what is charged and has no row yet. A server that lost its last
 * second counts too little of the first, and the rows know nothing of the second: neither figure alone will do.
 */
import { readChargeEntry } from './charge-entry.ts'
import { leaseMember } from './keys.ts'
import type { AttemptName, ChargedCounts } from './seed.ts'

/** How counts have an attempt, as seed.lua is told. */
export const COUNTED = { not: 0, byRow: 1, byCharge: 2 } as const

/** Counts that have every attempt, and by what they have those that were asked about; who is not there is not counted. */
export interface WholeCounts {
  counts: ChargedCounts
  counted: ReadonlyMap<string, number>
}

/** `entries` are the ledger entries of `unsettled`, in its order, read after the counts; null where nothing is charged. */
export function withOpenCharges(
  counts: ChargedCounts,
  unsettled: readonly AttemptName[],
  entries: readonly (string | null)[],
  hour: number,
): WholeCounts {
  const counted = new Map<string, number>(counts.ended?.map((one) => [leaseMember(one), COUNTED.byRow]))
  const day = { ...counts.day }
  const hours = new Map(counts.hours.map((one) => [one.agentId, { ...one }]))
  for (const [index, attempt] of unsettled.entries()) {
    const entry = entries[index]
    if (entry === null || entry === undefined || counted.has(leaseMember(attempt))) continue
    const charge = readChargeEntry(entry)
    if (charge.day !== day.bucket) continue
    counted.set(leaseMember(attempt), COUNTED.byCharge)
    day.count += 1
    if (charge.agentId === null || charge.hour !== hour) continue
    const ofAgent = hours.get(charge.agentId) ?? { agentId: charge.agentId, bucket: hour, count: 0 }
    hours.set(charge.agentId, { ...ofAgent, count: ofAgent.count + 1 })
  }
  return { counts: { ...counts, day, hours: [...hours.values()] }, counted }
}
