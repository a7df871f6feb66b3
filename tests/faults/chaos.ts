/**
 * Runs executions of several tenants while one worker is killed every second and another one replaces it, and
 * caps are lowered and raised. Then it counts executions, endings, rows and charges.
 */
import { setTimeout as pause } from 'node:timers/promises'
import {
  DEFAULT_TENANT_CAPS,
  type Accepted,
  type AuditRow,
  type Ending,
  type TenantCaps,
} from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import type { Redis } from 'ioredis'
import type { Fleet, FleetWorker } from '../fleet.ts'
import { auditRows, chargedToday, fakeRequest } from './accounts.ts'

export interface ChaosPlan {
  executions: number
  workers: number
  killEveryMs: number
  /** Longest time from the last enqueue to the last ending. */
  patienceMs: number
  /** Gets a line of progress now and then. */
  note?: (line: string) => void
}

export interface ChaosAccount {
  accepted: number
  /** Executions with a visible ending. */
  ended: number
  /** Audit rows of all attempts, and the number of attempts according to the endings. */
  rows: number
  attempts: number
  /** Rows whose ending differs from that of the execution. */
  contradictions: number
  /** Charged executions by the counters of the caps, and by the rows. */
  chargedByCounter: number
  chargedByRows: number
  killed: number
  endings: Partial<Record<Ending, number>>
  tookMs: number
}

/**
 * `chaos-retried` opts into retries, the cap of `chaos-capped` moves, and `chaos-steady` is never limited.
 */
const TENANTS = ['chaos-steady', 'chaos-retried', 'chaos-capped'] as const
const GENEROUS: TenantCaps = { ...DEFAULT_TENANT_CAPS, tenant_daily: 10_000_000, agent_hourly: 10_000_000 }
/** Executions per batch: enough to keep four workers busy, and below every depth limit. */
const ROUND = 50
/** Most executions that wait at once, so that kills hit executions of every age. */
const WAITING_MAX = 1000
/** Clients that wait for results at once. */
const ASKED_AT_ONCE = 200

export async function runChaos(fleet: Fleet, plan: ChaosPlan): Promise<ChaosAccount> {
  const startedMs = Date.now()
  for (const tenant of TENANTS)
    await fleet.createTenant(tenant, { policy: { min_isolation: 'none' }, caps: GENEROUS })
  const env = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '8' }
  const workers: FleetWorker[] = await Promise.all(
    Array.from({ length: plan.workers }, () => fleet.startWorker(env)),
  )
  const over = new AbortController()
  let killed = 0
  const starting = new Set<Promise<void>>()
  const killing = (async () => {
    while (!over.signal.aborted) {
      await pause(plan.killEveryMs, undefined, { signal: over.signal }).catch(() => undefined)
      if (over.signal.aborted) return
      // A replacement takes seconds to start on a loaded machine. Kills continue while a worker is left.
      if (starting.size < plan.workers) {
        const heir = fleet.startWorker(env).then((worker) => void workers.push(worker))
        starting.add(heir)
        void heir.finally(() => starting.delete(heir))
      }
      if (workers.length < 2) continue
      await workers.shift()?.kill()
      killed += 1
    }
  })()

  const accepted: Accepted[] = []
  const redis = connectRedis(fleet.redisUrl, 'worker')
  try {
    for (let n = 0; n < plan.executions; n += ROUND) {
      const count = Math.min(ROUND, plan.executions - n)
      accepted.push(...(await Promise.all(Array.from({ length: count }, (_, i) => put(fleet, n + i)))))
      if ((n / ROUND) % 10 === 5) await moveCap(fleet, (n / ROUND) % 20 === 5)
      await roomForMore(redis)
      if ((n / ROUND) % 20 === 0) plan.note?.(`${accepted.length} accepted, ${killed} workers killed`)
    }
    await moveCap(fleet, false)
  } finally {
    over.abort()
    await killing
    await Promise.all(starting)
    redis.disconnect()
  }

  const endings: Partial<Record<Ending, number>> = {}
  const shown = new Map<string, { attempt: number; ending: Ending }>()
  const deadlineMs = Date.now() + plan.patienceMs
  for (let n = 0; n < accepted.length; n += ASKED_AT_ONCE)
    await Promise.all(
      accepted.slice(n, n + ASKED_AT_ONCE).map(async ({ execution_id }) => {
        const result = await fleet.client.wait(execution_id, {
          timeoutMs: Math.max(1, deadlineMs - Date.now()),
        })
        if (result === null) return
        shown.set(execution_id, result)
        endings[result.ending] = (endings[result.ending] ?? 0) + 1
      }),
    )

  const attempts = [...shown.values()].reduce((sum, { attempt }) => sum + attempt, 0)
  let rows = await allRows(fleet)
  // If no worker owned an execution when it ended, its row comes through the outbox, a moment later.
  while (rows.length < attempts && Date.now() < deadlineMs) {
    await pause(200)
    rows = await allRows(fleet)
  }
  const contradictions = rows.filter((row) => {
    const last = shown.get(row.execution_id)
    return last?.attempt === row.attempt && last.ending !== row.ending
  }).length
  let charged = await chargedNow(fleet, rows)
  // The charge of a dead worker is refunded only after its row is written.
  while (charged.chargedByCounter !== charged.chargedByRows && Date.now() < deadlineMs) {
    await pause(200)
    charged = await chargedNow(fleet, rows)
  }
  return {
    accepted: accepted.length,
    ended: shown.size,
    rows: rows.length,
    attempts,
    contradictions,
    ...charged,
    killed,
    endings,
    tookMs: Date.now() - startedMs,
  }
}

async function chargedNow(
  fleet: Fleet,
  rows: readonly AuditRow[],
): Promise<Pick<ChaosAccount, 'chargedByCounter' | 'chargedByRows'>> {
  const sum = { chargedByCounter: 0, chargedByRows: 0 }
  for (const tenant of TENANTS) {
    const { tenant_daily } = await fleet.admission.usage(tenant)
    const own = rows.filter((row) => row.tenant_id === tenant)
    sum.chargedByCounter += tenant_daily.used
    sum.chargedByRows += chargedToday(own, tenant_daily.resets_at).length
  }
  return sum
}

async function put(fleet: Fleet, n: number): Promise<Accepted> {
  const tenant = TENANTS[n % TENANTS.length] ?? TENANTS[0]
  const steps = [{ sleep_ms: n % 60 }, { print: `${n}` }]
  const accepted = await fleet.client.enqueue({
    ...fakeRequest(tenant, steps, `agent-${n % 11}`),
    ...(tenant === 'chaos-retried' ? { retry: { max_attempts: 3, on: ['worker_lost'] } } : {}),
  })
  if (n % 97 === 0) await fleet.client.cancel(accepted.execution_id)
  return accepted
}

/** Lowers the cap of one tenant to its current use, or removes the cap again, as the API would. */
async function moveCap(fleet: Fleet, down: boolean): Promise<void> {
  const { tenant_daily } = await fleet.admission.usage('chaos-capped')
  const caps = down ? { ...GENEROUS, tenant_daily: tenant_daily.used + 1 } : GENEROUS
  await fleet.store.tenants.setCaps('chaos-capped', caps, 'test')
  await fleet.admission.setCaps('chaos-capped', caps)
}

async function roomForMore(redis: Redis): Promise<void> {
  while ((await redis.zcard(`${KEYS.waiting}interactive`)) > WAITING_MAX) await pause(50)
}

const allRows = async (fleet: Fleet) =>
  (await Promise.all(TENANTS.map((tenant) => auditRows(fleet, tenant)))).flat()
