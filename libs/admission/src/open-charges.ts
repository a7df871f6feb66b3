/**
 * What a window was charged is what the audit rows have of it and what is charged and has no row yet. A server that lost its last
 * second counts too little of the first, and the rows know nothing of the second: neither figure alone will do.
 */
import { readChargeEntry } from './charge-entry.ts'
import { leaseMember } from './keys.ts'
import type { AttemptName, ChargedCounts } from './seed.ts'

/** Counts that have every attempt, and the members of those that they have by their charge alone. */
export interface WholeCounts {
  counts: ChargedCounts
  open: ReadonlySet<string>
}

/** `entries` are the ledger entries of `unsettled`, in its order, read after the counts; null where nothing is charged. */
export function withOpenCharges(
  counts: ChargedCounts,
  unsettled: readonly AttemptName[],
  entries: readonly (string | null)[],
  hour: number,
): WholeCounts {
  const ended = new Set(counts.ended?.map(leaseMember))
  const open = new Set<string>()
  const day = { ...counts.day }
  const hours = new Map(counts.hours.map((one) => [one.agentId, { ...one }]))
  for (const [index, attempt] of unsettled.entries()) {
    const entry = entries[index]
    if (entry === null || entry === undefined || ended.has(leaseMember(attempt))) continue
    const charge = readChargeEntry(entry)
    if (charge.day !== day.bucket) continue
    open.add(leaseMember(attempt))
    day.count += 1
    if (charge.agentId === null || charge.hour !== hour) continue
    const ofAgent = hours.get(charge.agentId) ?? { agentId: charge.agentId, bucket: hour, count: 0 }
    hours.set(charge.agentId, { ...ofAgent, count: ofAgent.count + 1 })
  }
  return { counts: { ...counts, day, hours: [...hours.values()] }, open }
}
