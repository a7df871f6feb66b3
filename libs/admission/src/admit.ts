/**
 * One admission, start to end:
 *
 *   admit.lua ─► charged | charged before ─► Admitted with a lease
 *       │
 *       ├─► denied ─► Refused; the charge of an earlier owner that died before user code began is refunded
 *       ├─► fenced: a later owner of the attempt was admitted ─► throws `fenced`
 *       ├─► unseeded ─► counters restored from the audit rows ─► again
 *       └─► Redis slow or away ─► Refused 'unknown' (fail closed); a late effect of the call is undone when it is known
 *
 * Throws only `fenced`. If a process dies between two calls, or Redis never answers an undo, the tenant may
 * be charged for one attempt too many. It is never charged for too few.
 */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { keys, leaseMember, type AttemptKey } from './keys.ts'
import { releaseLease, type Settlement } from './lease.ts'
import type { Reply, Scripts } from './scripts.ts'
import { readVerdict, type Admitted, type Refused } from './verdict.ts'
import { whenSeeded, type WhenSeededDeps } from './when-seeded.ts'

/** When to ask again if admission could not decide. */
const UNKNOWN_RETRY_MS = 60_000

export interface AdmitDeps extends WhenSeededDeps {
  scripts: Scripts
  newToken(): string
  now(): number
  defaults: { tenant_daily: number; agent_hourly: number; concurrency: number }
  leaseMs: number
  ledgerTtlMs: number
  dayMs: number
  hourMs: number
  logger?: { warn(facts: Record<string, unknown>, message: string): void } | undefined
}

/** `most` is the most that the attempt may use. It is reserved for tenants with a cap on CPU or cost. */
export async function admit(key: AttemptKey, most: Settlement, deps: AdmitDeps): Promise<Admitted | Refused> {
  const token = `${key.fence ?? 0}~${deps.newToken()}`
  try {
    const asked = await whenSeeded(key.tenantId, deps, (serverRun) =>
      callAdmit(key, most, token, serverRun, deps),
    )
    if (asked?.reply.code === 'fenced')
      throw new CofferdamError('fenced', 'The attempt was admitted to a later owner.')
    if (asked !== null) return await settle(asked.reply, key, { token, serverRun: asked.serverRun }, deps)
    deps.logger?.warn({ tenant_id: key.tenantId }, 'counters stay unseeded; failing closed')
  } catch (error) {
    if (isCofferdamError(error) && error.code === 'fenced') throw error
    deps.logger?.warn(
      { err: error, tenant_id: key.tenantId, execution_id: key.executionId },
      'admission cannot decide; failing closed',
    )
  }
  return unknown(deps)
}

async function callAdmit(
  key: AttemptKey,
  most: Settlement,
  token: string,
  serverRun: string,
  deps: AdmitDeps,
): Promise<Reply> {
  return deps.scripts.run(
    'admit',
    [
      keys.seeded(key.tenantId),
      keys.caps(key.tenantId),
      keys.charge(key),
      keys.day(key.tenantId),
      keys.hour(key.tenantId, key.agentId),
      keys.leases(key.tenantId),
      keys.tat(key.tenantId),
      keys.open(key.tenantId),
    ],
    [
      key.agentId,
      deps.dayMs,
      deps.hourMs,
      deps.defaults.tenant_daily,
      deps.defaults.agent_hourly,
      deps.defaults.concurrency,
      leaseMember(key),
      token,
      deps.leaseMs,
      deps.ledgerTtlMs,
      serverRun,
      most.cpuMs,
      most.cost,
    ],
    // The call timed out, but the server may have run it or may still run it. Undo only a charge that this
    // call made: an earlier one ('charged_before') may belong to another owner.
    (late) => {
      if (late === null || late.code === 'charged') void undo(key, token, deps)
    },
  )
}

async function settle(
  reply: Reply,
  key: AttemptKey,
  asked: { token: string; serverRun: string },
  deps: AdmitDeps,
): Promise<Admitted | Refused> {
  const { verdict, orphan } = readVerdict(reply, key, asked)
  if (orphan !== '') await deps.scripts.run('refund', refundKeys(key), [orphan, 0, leaseMember(key), ''])
  return verdict
}

/** Refunds exactly what this call charged and releases its lease. Best effort: a failure is logged. */
async function undo(key: AttemptKey, token: string, deps: AdmitDeps): Promise<void> {
  try {
    const { code } = await deps.scripts.run('refund', refundKeys(key), [token, 1, leaseMember(key), ''])
    if (code !== 'refunded') return
    await releaseLease(deps.scripts, { ...key, token }, 0, null)
  } catch (error) {
    deps.logger?.warn(
      { err: error, tenant_id: key.tenantId, execution_id: key.executionId },
      'an admission that was given up could not be undone',
    )
  }
}

/** The keys of refund.lua, in its order. */
export const refundKeys = (key: AttemptKey): string[] => [
  keys.charge(key),
  keys.day(key.tenantId),
  keys.hour(key.tenantId, key.agentId),
  keys.open(key.tenantId),
]

const unknown = (deps: AdmitDeps): Refused => ({
  admitted: false,
  dimension: 'unknown',
  resetsAtMs: deps.now() + UNKNOWN_RETRY_MS,
  killSwitch: false,
  caps: null,
})
