/** The factory of admission: binds the scripts to a connection and names every number that they run with. */
import { BOUNDS, FLEET_DEFAULTS, MAX_LIMITS, type TenantCaps } from '@cofferdam/contract'
import { boundedAnswer } from '@cofferdam/queue/redis-calls'
import type { Redis } from 'ioredis'
import { randomBytes } from 'node:crypto'
import { admit, refundKeys, type AdmitDeps } from './admit.ts'
import { readCaps, readCapsRev, writeCaps } from './caps.ts'
import { readChargeEntry } from './charge-entry.ts'
import { keepCharge } from './keep-charge.ts'
import { keys, leaseMember, type AttemptKey } from './keys.ts'
import { releaseLease, renewLeases, type Settlement } from './lease.ts'
import { defineScripts } from './scripts.ts'
import { createSeeding, type AttemptName, type ChargedCounts } from './seed.ts'
import { createServerRun } from './server-run.ts'
import { readUsage, type Usage } from './usage.ts'
import type { Admitted, Lease, Refused } from './verdict.ts'

/**
 * How long a charge is remembered: 49 h. From its charge on an attempt may wait once more for its turn (24 h, handed
 * back by a dead or draining worker) and run (24 h); one hour more for an outage between its end and its settlement.
 * Memory: at most two days of the tenant's daily cap, about 200 bytes each.
 */
export const LEDGER_TTL_MS = BOUNDS.queueWaitMs + MAX_LIMITS.timeout_ms + 3_600_000

/** How long the charge of a settled attempt is remembered: only an owner that lost it can still ask, within its lock time. */
export const SETTLED_TTL_MS = 600_000

/** The default lease: as long as a dead worker's executions take to end at most, so that its leases end with them. */
export const LEASE_MS = 15_000

const DAY_MS = 86_400_000
const NOTHING: Settlement = { cpuMs: 0, cost: 0 }
const HOUR_MS = 3_600_000

export interface AdmissionDeps {
  /** Any connection of role worker or producer; it stays the caller's. */
  redis: Redis
  /** Charged attempts in the windows of `atMs` (Redis clock), from the audit rows. Asked once per tenant and server life. */
  countCharged(tenantId: string, atMs: number, unsettled: AttemptName[]): Promise<ChargedCounts>
  /**
   * The tenant's caps as Postgres has them, null for none. Read together with countCharged, so that caps and kill switch
   * survive a Redis loss. Without it, caps in Redis are only what setCaps wrote since.
   */
  loadCaps?: (tenantId: string) => Promise<TenantCaps | null>
  /** Caps behind `null`. Default: FLEET_DEFAULTS. A cap of 0 here stops every tenant that has none of its own. */
  defaults?: { tenant_daily: number; agent_hourly: number; concurrency: number }
  /** Default 15,000. */
  leaseMs?: number
  /** How long one Redis or Postgres call is waited for before failing closed. Default 5,000: a third of the lock time. */
  timeoutMs?: number
  logger?: AdmitDeps['logger']
  /** Wall clock, only for `resetsAtMs` of dimension `unknown`. Default Date.now. */
  now?: () => number
  /** Distinct per call. Default: 9 random bytes of this factory and a count. */
  newToken?: () => string
  /** Lengths of the windows, for tests. Defaults: a UTC day and hour. */
  dayMs?: number
  hourMs?: number
}

export interface Admission {
  /**
   * Charges the attempt once and gives it a lease, or refuses. Never throws for Redis or Postgres trouble: `unknown`.
   * `most` is what it may use at most (`largestCharge`): reserved until it is settled, where a cap of CPU or cost stands.
   */
  admit(key: AttemptKey, most?: Settlement): Promise<Admitted | Refused>
  /**
   * Before the audit row of an attempt that stays charged: counts it again when another life of the Redis server than it was admitted in
   * has lost its charge. Asks Redis only in another life. Never throws.
   */
  keepCharge(admitted: Admitted): Promise<void>
  /** Prolongs leases by the lease time; returns the lost ones. Call every third of it. Throws `queue_unavailable`. */
  renew(leases: readonly Lease[]): Promise<Lease[]>
  /**
   * Frees a lease; a no-op when it is gone or the attempt was admitted again. Say `settled` when the attempt has ended
   * for good: its ledger entry then fades after 10 minutes instead of 49 hours. `settlement` is what its audit row says
   * that it is charged: what was reserved for it becomes use; without one it stays reserved for whoever ends the attempt.
   * Throws `queue_unavailable`.
   */
  release(lease: Lease, options?: { settled?: boolean; settlement?: Settlement | null }): Promise<void>
  /**
   * Settles an attempt whose lease is not at hand: its owner is dead. Works once per attempt, whoever comes first.
   * Throws `queue_unavailable`.
   */
  settle(key: Omit<AttemptKey, 'agentId'>, settlement: Settlement): Promise<void>
  /**
   * Takes the charge back, for an attempt in which no user code began. True when it was charged and is no longer; a
   * second call is a no-op. With the lease at hand pass it: an owner that lost the attempt then refunds nothing. Without
   * it, what an owner with a higher fence was charged stays.
   * Throws `queue_unavailable`.
   */
  refund(key: AttemptKey, lease?: Lease): Promise<boolean>
  /** When the attempt was charged (Redis clock, ms), null when it is not: for whoever closes what a dead worker left. Throws `queue_unavailable`. */
  chargedAtMs(key: Omit<AttemptKey, 'agentId'>): Promise<number | null>
  /**
   * Used and left, without charging. What a dead worker ended and did not settle is counted from its audit row here, once its lease
   * is over. Throws `queue_unavailable`.
   */
  usage(tenantId: string, agentId?: string): Promise<Usage>
  /** Makes caps take effect with the next admission; commit them to Postgres first. Throws `invalid_request`, `queue_unavailable`. */
  setCaps(tenantId: string, caps: TenantCaps): Promise<void>
  /**
   * The same for caps that were read after `capsRev` said `rev`; false, and nothing is set, when others were set since: read again.
   * Throws like `setCaps`.
   */
  setCapsSince(tenantId: string, caps: TenantCaps, rev: string): Promise<boolean>
  /** Names the caps that are in force; '' for none. Throws `queue_unavailable`. */
  capsRev(tenantId: string): Promise<string>
  /** The caps that admission goes by; the defaults (all null) for a tenant that has none. Throws `queue_unavailable`. */
  getCaps(tenantId: string): Promise<TenantCaps>
}

/** Random once: a draw for each admission costs more than the rest of its call. */
function countedTokens(): () => string {
  const own = randomBytes(9).toString('base64url')
  let made = 0
  return () => `${own}.${(made += 1).toString(36)}`
}

export function createAdmission(deps: AdmissionDeps): Admission {
  const { redis, timeoutMs = 5000, leaseMs = LEASE_MS, dayMs = DAY_MS, hourMs = HOUR_MS } = deps
  const { defaults = FLEET_DEFAULTS } = deps
  const newToken = deps.newToken ?? countedTokens()
  const scripts = defineScripts(redis, timeoutMs)
  const serverRun = createServerRun(redis, timeoutMs)
  const seed = createSeeding({
    scripts,
    countCharged: (tenantId, atMs, unsettled) => deps.countCharged(tenantId, atMs, unsettled),
    loadCaps: async (tenantId) => deps.loadCaps?.(tenantId) ?? null,
    readCharges: (names) => boundedAnswer(redis.mget(names), timeoutMs, 'reading the charge ledger'),
    newToken,
    dayMs,
    hourMs,
    timeoutMs,
  })
  const admitDeps: AdmitDeps = {
    scripts,
    serverRun,
    seed,
    newToken,
    now: deps.now ?? Date.now,
    defaults,
    leaseMs,
    ledgerTtlMs: LEDGER_TTL_MS,
    dayMs,
    hourMs,
    logger: deps.logger,
  }
  return {
    admit: (key, most = NOTHING) => admit(key, most, admitDeps),
    keepCharge: (admitted) => keepCharge(admitted, admitDeps),
    renew: (leases) => renewLeases(scripts, leases, leaseMs),
    async release(lease, options = {}) {
      const fadeMs = options.settled === true ? SETTLED_TTL_MS : 0
      await releaseLease(scripts, lease, fadeMs, options.settlement ?? null)
    },
    async settle({ tenantId, executionId, attempt }, settlement) {
      await releaseLease(scripts, { tenantId, executionId, attempt, token: null }, SETTLED_TTL_MS, settlement)
    },
    async refund(key, lease) {
      const reply = await scripts.run('refund', refundKeys(key), [
        lease?.token ?? '',
        0,
        leaseMember(key),
        key.fence ?? '',
      ])
      return reply.code === 'refunded'
    },
    async chargedAtMs(key) {
      const entry = await boundedAnswer(redis.get(keys.charge(key)), timeoutMs, 'reading the charge ledger')
      return entry === null ? null : readChargeEntry(entry).chargedAtMs
    },
    async usage(tenantId, agentId) {
      const read = () => readUsage(scripts, tenantId, agentId, { serverRun, dayMs, hourMs, defaults })
      const { usage, recount } = await read()
      if (recount === null) return usage
      try {
        await seed(tenantId, recount)
        return (await read()).usage
      } catch (error) {
        deps.logger?.warn({ err: error, tenant_id: tenantId }, 'usage is shown as it was counted')
        return usage
      }
    },
    async setCaps(tenantId, caps) {
      await writeCaps(scripts, tenantId, caps, newToken())
    },
    setCapsSince: (tenantId, caps, rev) => writeCaps(scripts, tenantId, caps, newToken(), rev),
    capsRev: (tenantId) => boundedAnswer(readCapsRev(redis, tenantId), timeoutMs, 'reading caps'),
    getCaps: (tenantId) => boundedAnswer(readCaps(redis, tenantId), timeoutMs, 'reading caps'),
  }
}
