/**
 * One of the processes that never-passed.test.ts starts. Its clients compete for the caps of one tenant. They
 * make attempts, some of which other processes make too. They refund some at random, each twice, and never
 * release some leases. Prints one JSON line of totals at its end, unless it is killed.
 */
import { type ExecutionId, uuidv7Hex } from '@cofferdam/contract'
import type { Refused } from '../src/index.ts'
import { openAdmission } from './open-admission.ts'

export interface CapClientOrders {
  url: string
  tenantId: string
  clients: number
  /**
   * When each client ends: after this many attempts, when the day's cap refuses one, or only when it is
   * killed.
   */
  end: number | 'refused' | 'killed'
  agents: number
  /** Executions that every process tries. */
  shared: ExecutionId[]
  leaseMs: number
  dayMs: number
  hourMs: number
  seed: number
}

export interface CapClientTotals {
  charged: number
  refunded: number
  refused: Record<string, number>
}

const orders = JSON.parse(process.argv[2] ?? '') as CapClientOrders
const random = mulberry32(orders.seed)
const totals: CapClientTotals = { charged: 0, refunded: 0, refused: {} }

await Promise.all(Array.from({ length: orders.clients }, () => client()))
process.stdout.write(`${JSON.stringify(totals)}\n`)

async function client(): Promise<void> {
  const { tenantId, leaseMs, dayMs, hourMs } = orders
  const open = openAdmission(orders.url, { leaseMs, dayMs, hourMs })
  const attempts = typeof orders.end === 'number' ? orders.end : Infinity
  for (let i = 0; i < attempts; i++) {
    const refusedBy = await one(open.admission, tenantId)
    if (orders.end === 'refused' && refusedBy === 'tenant_daily') break
  }
  open.close()
}

/** Makes one attempt. Returns what refused it, or null when it was admitted. */
async function one(
  admission: ReturnType<typeof openAdmission>['admission'],
  tenantId: string,
): Promise<Refused['dimension'] | null> {
  const executionId = pickExecution()
  // All processes use the same agent for an execution, so that a refund changes the hour that was charged.
  const agentId = `agent-${Number.parseInt(executionId.slice(-6), 16) % orders.agents}`
  const key = { tenantId, agentId, executionId, attempt: 1 }
  const verdict = await admission.admit(key)
  if (!verdict.admitted) {
    totals.refused[verdict.dimension] = (totals.refused[verdict.dimension] ?? 0) + 1
    return verdict.dimension
  }
  if (verdict.charged === 'now') totals.charged++
  if (random() < 0.25) {
    if (await admission.refund(key)) totals.refunded++
    // Another process may have charged the attempt again meanwhile. Then this is a refund like any other.
    if (await admission.refund(key)) totals.refunded++
  }
  if (random() < 0.7) await admission.release(verdict.lease)
  return null
}

function pickExecution(): ExecutionId {
  const shared = orders.shared[Math.floor(random() * orders.shared.length)]
  return random() < 0.4 && shared !== undefined ? shared : `exe_${uuidv7Hex()}`
}

/** A small seeded generator, so that a failing run can be repeated by its seed. */
function mulberry32(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}
