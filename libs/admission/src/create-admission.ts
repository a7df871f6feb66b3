/** Creates admission: binds the scripts to a connection and decides every number that they get. */
import { BOUNDS, FLEET_DEFAULTS, MAX_LIMITS, type TenantCaps } from '@cofferdam/contract'
import { boundedAnswer } from '@cofferdam/queue/redis-calls'
import type { Redis } from 'ioredis'
import { randomBytes } from 'node:crypto'
import { admit, refundKeys, type AdmitDeps } from './admit.ts'
import { readCaps, readCapsRev, writeCaps } from './caps.ts'
import { readChargeEntry } from './charge-entry.ts'
import { keepCharge, keepEarlierCharge, type EarlierCharge } from './keep-charge.ts'
import { keys, leaseMember, type AttemptKey } from './keys.ts'
import { releaseLease, renewLeases, type Settlement } from './lease.ts'
import { defineScripts } from './scripts.ts'
import { createSeeding, type AttemptName, type ChargedCounts } from './seed.ts'
import { createServerRun } from './server-run.ts'
import { readUsage, type Usage } from './usage.ts'
import type { Admitted, Lease, Refused } from './verdict.ts'

/**
 * How long a charge is remembered: 49 h. After its charge an attempt may go back to the queue, if its worker
 * dies or drains. It may then wait again (24 h) and run (24 h). One hour more is for an outage between its
 * end and its settlement. Memory: about 200 bytes for each attempt. The entry of a settled one expires after
 * 10 minutes.
 */
export const LEDGER_TTL_MS = BOUNDS.queueWaitMs + MAX_LIMITS.timeout_ms + 3_600_000

/**
 * How long the charge of a settled attempt is kept. Only an owner that lost the attempt still asks for the
 * charge, and only within its lock time.
 */
export const SETTLED_TTL_MS = 600_000

/**
 * The default lease. Other workers end a dead worker's executions within this time, and its leases expire.
 */
export const LEASE_MS = 15_000

const DAY_MS = 86_400_000
const NOTHING: Settlement = { cpuMs: 0, cost: 0 }
const HOUR_MS = 3_600_000

export interface AdmissionDeps {
  /** Any connection of role worker or producer. The caller owns it. */
  redis: Redis
  /**
   * Charged attempts in the windows of `atMs` (Redis clock), from the audit rows. Called to seed a tenant's
   * counters.
   */
  countCharged(tenantId: string, atMs: number, unsettled: AttemptName[]): Promise<ChargedCounts>
  /**
   * The tenant's caps in Postgres, null for none. Read together with countCharged, so that caps and kill
   * switch survive a loss of Redis. Without it, Redis has only the caps that setCaps wrote since.
   */
  loadCaps?: (tenantId: string) => Promise<TenantCaps | null>
  /**
   * Caps for a tenant whose own cap is null. Default: FLEET_DEFAULTS. 0 stops every tenant that has no cap of
   * its own.
   */
  defaults?: { tenant_daily: number; agent_hourly: number; concurrency: number }
  /** Default 15,000. */
  leaseMs?: number
  /**
   * Time limit of one Redis or Postgres call, after which the call fails closed. Default 5,000, a third of
   * the default lease.
   */
  timeoutMs?: number
  logger?: AdmitDeps['logger']
  /** Wall clock, only for `resetsAtMs` of dimension `unknown`. Default Date.now. */
  now?: () => number
  /** Distinct per call. Default: 9 random bytes. */
  newToken?: () => string
  /** Lengths of the windows, for tests. Defaults: a UTC day and hour. */
  dayMs?: number
  hourMs?: number
}

export interface Admission {
  /**
   * Charges the attempt once and gives it a lease, or refuses. Refuses with `unknown`, and does not throw, if
   * Redis or Postgres fails. `most` is the most that it may use (`largestCharge`). With a cap on CPU or cost,
   * that is reserved until the attempt is settled.
   */
  admit(key: AttemptKey, most?: Settlement): Promise<Admitted | Refused>
  /**
   * If Redis lost the charge of an attempt in flight, charges it again. Call it before the audit row of an
   * attempt that stays charged is written. Asks Redis only if the server restarted since the admission. Never
   * throws.
   */
  keepCharge(admitted: Admitted): Promise<void>
  /**
   * As `keepCharge`, for an attempt that another worker admitted and whose row was delayed, for example in
   * the outbox. Call it only while the row does not exist. Throws `queue_unavailable`.
   */
  keepEarlierCharge(charge: EarlierCharge): Promise<void>
  /** Renews leases and returns the lost ones. Call it every third of a lease. Throws `queue_unavailable`. */
  renew(leases: readonly Lease[]): Promise<Lease[]>
  /**
   * Releases a lease. Does nothing if it is gone or the attempt was admitted again. With `settled` the
   * attempt has ended for good, and its ledger entry expires after 10 minutes instead of 49 hours.
   * `settlement` is the charge in its audit row: the reservation becomes use. Without a settlement, the
   * reservation stays for whoever ends the attempt. Throws `queue_unavailable`.
   */
  release(lease: Lease, options?: { settled?: boolean; settlement?: Settlement | null }): Promise<void>
  /** Settles a dead owner's attempt without its lease. Works once per attempt. Throws `queue_unavailable`. */
  settle(key: Omit<AttemptKey, 'agentId'>, settlement: Settlement): Promise<void>
  /**
   * Refunds the charge of an attempt in which no user code began. Returns true if this call removed a charge.
   * A second call is a no-op. Pass the lease if you have it: then an owner that lost the attempt refunds
   * nothing. Without it, the charge of an owner with a higher fence stays. Throws `queue_unavailable`.
   */
  refund(key: AttemptKey, lease?: Lease): Promise<boolean>
  /** When the attempt was charged (Redis clock, ms), or null. Throws `queue_unavailable`. */
  chargedAtMs(key: Omit<AttemptKey, 'agentId'>): Promise<number | null>
  /**
   * Reads what is used and left, without charging. If a worker died between ending an attempt and settling
   * it, the audit row counts once the lease has expired. Throws `queue_unavailable`.
   */
  usage(tenantId: string, agentId?: string): Promise<Usage>
  /** Sets the caps after a commit to Postgres. Throws `invalid_request`, `queue_unavailable`. */
  setCaps(tenantId: string, caps: TenantCaps): Promise<void>
  /**
   * Sets caps that were read after `capsRev` returned `rev`. If other caps were set since, sets nothing and
   * returns false. Throws like `setCaps`.
   */
  setCapsSince(tenantId: string, caps: TenantCaps, rev: string): Promise<boolean>
  /** The rev of the caps in force, '' for none. Throws `queue_unavailable`. */
  capsRev(tenantId: string): Promise<string>
  /** The caps in force, or the defaults (all null). Throws `queue_unavailable`. */
  getCaps(tenantId: string): Promise<TenantCaps>
}

export function createAdmission(deps: AdmissionDeps): Admission {
  const { redis, timeoutMs = 5000, leaseMs = LEASE_MS, dayMs = DAY_MS, hourMs = HOUR_MS } = deps
  const { defaults = FLEET_DEFAULTS } = deps
  const newToken = deps.newToken ?? (() => randomBytes(9).toString('base64url'))
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
    keepEarlierCharge: (charge) => keepEarlierCharge(charge, admitDeps),
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
