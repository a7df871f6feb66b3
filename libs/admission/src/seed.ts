/**
 * Restores a tenant's counters when the Redis server is not the one that counted them (first use, lost data,
 * restart), or for another reason that seed.lua lists.
 *
 *   unseeded ──countCharged + loadCaps──► seed.lua ──► seeded (once per run of the server)
 *                                            └─ caps were set, or an attempt was settled, meanwhile:
 *                                               whenSeeded repeats the admission, which seeds again
 *
 * countCharged must count by the given Redis clock. An attempt without an audit row is counted by its charge
 * in Redis. If Redis lost that charge, the attempt's owner charges it again (keep-charge.ts).
 */
import { CofferdamError, type TenantCaps } from '@cofferdam/contract'
import { boundedAnswer } from '@cofferdam/queue/redis-calls'
import { capsFields } from './caps.ts'
import { readChargeEntry } from './charge-entry.ts'
import { attemptOfMember, keys, leaseMember, type AttemptKey } from './keys.ts'
import type { Scripts } from './scripts.ts'

/**
 * Numbers of charged attempts in the day and the hour that contain one moment. They count audit rows with
 * `quota_charged`, by `charged_at`.
 */
export interface ChargedCounts {
  /** `bucket` = floor(charged_at in ms / length of the window). */
  day: { bucket: number; count: number; cpuMs?: number; cost?: number }
  hours: { agentId: string; bucket: number; count: number }[]
  /** Those of the `unsettled` attempts whose rows `day` counts. Read in the same statement as `day`. */
  ended?: AttemptName[]
}

/** Identifies an attempt of a tenant. */
export type AttemptName = Pick<AttemptKey, 'executionId' | 'attempt'>

export interface SeedDeps {
  scripts: Scripts
  countCharged(tenantId: string, atMs: number, unsettled: AttemptName[]): Promise<ChargedCounts>
  loadCaps(tenantId: string): Promise<TenantCaps | null>
  /** Ledger entries by their keys. Null for a missing one. */
  readCharges(names: string[]): Promise<(string | null)[]>
  newToken(): string
  dayMs: number
  hourMs: number
  timeoutMs: number
}

/** The reply to an admission of an unseeded tenant. */
export interface Unseeded {
  serverRun: string
  /** Redis clock, milliseconds. */
  nowMs: number
  capsRev: string
}

/** Agents, and attempts, per script call. 500 keys block the server for about a millisecond. */
const BATCH = 500

/**
 * Returns the seeding function. Concurrent calls for one tenant share one run. Throws on unreadable counts.
 */
export function createSeeding(deps: SeedDeps): (tenantId: string, told: Unseeded) => Promise<void> {
  // Bounded by the tenants with an admission in flight. An entry is deleted when its run ends.
  const running = new Map<string, Promise<void>>()
  return (tenantId, told) => {
    const present = running.get(tenantId)
    if (present !== undefined) return present
    const run = seedTenant(tenantId, told, deps).finally(() => running.delete(tenantId))
    running.set(tenantId, run)
    return run
  }
}

async function seedTenant(tenantId: string, told: Unseeded, deps: SeedDeps): Promise<void> {
  // Read before the counts, so that no attempt is missed: one that is settled later is in this list, or its
  // settlement counts it.
  const unsettled = await unsettledAttempts(tenantId, deps)
  const [recorded, caps] = await boundedAnswer(
    Promise.all([deps.countCharged(tenantId, told.nowMs, unsettled), deps.loadCaps(tenantId)]),
    deps.timeoutMs,
    'counting charged attempts',
  )
  checkBuckets(recorded, told.nowMs, deps)
  const charges = await chargesOf(tenantId, unsettled, deps)
  const hour = Math.floor(told.nowMs / deps.hourMs)
  const { counts, counted } = withOpenCharges(recorded, unsettled, charges, hour)
  for (let from = 0; ; from += BATCH) {
    const hours = counts.hours.slice(from, from + BATCH)
    const attempts = unsettled.slice(from, from + BATCH)
    const last = from + BATCH >= Math.max(counts.hours.length, unsettled.length)
    const fields = last && caps !== null ? capsFields(caps, deps.newToken()) : []
    const { code } = await deps.scripts.run(
      'seed',
      [
        keys.seeded(tenantId),
        keys.caps(tenantId),
        keys.day(tenantId),
        keys.open(tenantId),
        keys.leases(tenantId),
        ...hours.map((hour) => keys.hour(tenantId, hour.agentId)),
        ...attempts.map((attempt) => keys.charge({ tenantId, ...attempt })),
      ],
      [
        told.serverRun,
        told.capsRev,
        last ? 1 : 0,
        deps.dayMs,
        deps.hourMs,
        counts.day.bucket,
        counts.day.count,
        counts.day.cpuMs ?? 0,
        counts.day.cost ?? 0,
        hours.length,
        ...hours.flatMap((hour) => [hour.bucket, hour.count]),
        attempts.length,
        ...attempts.map(leaseMember).flatMap((member) => [member, counted.get(member) ?? COUNTED.not]),
        ...fields,
      ],
    )
    if (code !== 'more') return
  }
}

async function unsettledAttempts(tenantId: string, deps: SeedDeps): Promise<AttemptName[]> {
  const reply = await deps.scripts.run('unsettled', [keys.open(tenantId), keys.leases(tenantId)], [])
  return reply.rest.map((member) => attemptOfMember(String(member)))
}

async function chargesOf(
  tenantId: string,
  attempts: readonly AttemptName[],
  deps: SeedDeps,
): Promise<(string | null)[]> {
  const charges: (string | null)[] = []
  for (let from = 0; from < attempts.length; from += BATCH)
    charges.push(
      ...(await deps.readCharges(
        attempts.slice(from, from + BATCH).map((attempt) => keys.charge({ tenantId, ...attempt })),
      )),
    )
  return charges
}

/** The script would drop a count of another window, and the counter would be too low. So refuse it here. */
function checkBuckets(counts: ChargedCounts, nowMs: number, deps: SeedDeps): void {
  const day = Math.floor(nowMs / deps.dayMs)
  const hour = Math.floor(nowMs / deps.hourMs)
  if (counts.day.bucket === day && counts.hours.every((h) => h.bucket === hour)) return
  throw new CofferdamError('internal', 'charged attempts were counted for another window than asked', {
    details: { asked: { day, hour }, got: { day: counts.day.bucket, hours: counts.hours[0]?.bucket } },
  })
}

/** How the counts include an attempt, in the form of seed.lua's arguments. */
const COUNTED = { not: 0, byRow: 1, byCharge: 2 } as const

/**
 * Counts of all attempts. `counted` says how they include an unsettled attempt. An unsettled attempt that is
 * missing there is not counted.
 */
interface WholeCounts {
  counts: ChargedCounts
  counted: ReadonlyMap<string, number>
}

/**
 * Adds the charges of attempts that have no audit row yet to the counts of the rows. Counters in Redis cannot
 * replace these counts, because a restarted server may have lost its last second of writes. `entries` are the
 * ledger entries of `unsettled`, in its order, read after the counts. Null means not charged.
 */
function withOpenCharges(
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
