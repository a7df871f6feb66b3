/**
 * Fairness over the real queue and a worker of 8 slots, on `fake` with given run lengths.
 *   light   One tenant runs one execution at a time while another one has a backlog over 1,000 agents, with
 *           runs of 1, 20 and 200 ms. Waits are also given in service times, the mean time that a run of the
 *           backlog holds a slot.
 *   long    Tenants with the default concurrency. One tenant has 24 runs of 10 s: how many slots it gets, and
 *           how long another tenant waits. Then one tenant has only short runs: how many slots it gets.
 *   shares  Slot time by weight and by run length, of tenants that always have work.
 *   eta     Forecasts of position and ETA against the outcome, for executions that waited another 0.5 s or
 *           more after the forecast.
 */
import type { ExecutionState } from '@cofferdam/contract'
import { mean, now, openQueue, ranSince, runOf, sum, type FloodedQueue, type Ran } from './flood.ts'
import type { BenchContext, Measured } from './report.ts'
import { quantile, round, summarise } from './statistics.ts'

const SLOTS = 8
const AGENTS = 1000
/** 60 %, 30 % and 10 %. The 200 ms runs use three quarters of the slot time. */
const MIXED_MS = [1, 1, 1, 20, 1, 20, 1, 200, 20, 1]

export async function measureFairness(context: BenchContext): Promise<Record<string, Measured>> {
  await using queue = openQueue(context.fleet)
  const sizes = context.quick ? [10_000] : [10_000, 100_000]
  const results: Record<string, Measured> = {}
  for (const size of sizes) {
    Object.assign(results, await lightTenant(context, queue, size, MIXED_MS, `light_${size}`))
    await queue.empty()
  }
  // In a quick run the heavy tenant completes about 600 executions during the measurement, so its backlog of
  // 1,500 lasts until the end.
  const equal = context.quick ? 1500 : 10_000
  Object.assign(results, await lightTenant(context, queue, equal, [50], 'light_equal_runs'))
  await queue.empty()
  Object.assign(results, await longRuns(context, queue))
  await queue.empty()
  Object.assign(results, await shares(context, queue))
  await queue.empty()
  Object.assign(results, await forecasts(context, queue))
  await queue.empty()
  return results
}

const startWorker = (context: BenchContext) =>
  context.fleet.startWorker({ COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: String(SLOTS) })

async function lightTenant(
  context: BenchContext,
  queue: FloodedQueue,
  size: number,
  lengths: readonly number[],
  name: string,
): Promise<Record<string, Measured>> {
  const { store } = context.fleet
  const tenants = { heavy: `heavy-${name}`, light: `light-${name}` }
  for (const tenant of Object.values(tenants)) {
    await create(context, queue, tenant)
  }
  await queue.flood(
    Array.from({ length: size }, (_, n) =>
      runOf(tenants.heavy, `agent-${n % AGENTS}`, lengths[n % lengths.length] ?? 0),
    ),
  )
  const cursor = await now(store)
  const worker = await startWorker(context)
  const waits: number[] = []
  try {
    for (let n = 0; n < (context.quick ? 25 : 500); n += 1) {
      const { execution_id } = await queue.producer.put(runOf(tenants.light, 'only', 50), {
        awaitReply: true,
      })
      const result = await queue.producer.wait(execution_id, { timeoutMs: 60_000 })
      if (result?.ok !== true) throw new Error(`light: ${JSON.stringify(result)}`)
      // Skips the first waits, because the worker is still starting.
      if (n >= 10) waits.push(result.queue_ms)
    }
  } finally {
    await worker.stop()
  }
  const heavy = (await ranSince(store, cursor)).filter((ran) => ran.tenant === tenants.heavy)
  const serviceMs = mean(heavy.map((ran) => ran.slotMs))
  const perAgent = new Map<string, number>()
  for (const { agent } of heavy) perAgent.set(agent, (perAgent.get(agent) ?? 0) + 1)
  const counts = Array.from({ length: AGENTS }, (_, n) => perAgent.get(`agent-${n}`) ?? 0)
  return {
    [`fairness.${name}.wait`]: { unit: 'ms', summary: summarise(waits) },
    [`fairness.${name}.wait_in_service_times`]: {
      unit: 'ratio',
      summary: summarise(waits.map((ms) => ms / serviceMs)),
    },
    [`fairness.${name}.service_time`]: { unit: 'ms', value: round(serviceMs) },
    [`fairness.${name}.heavy_runs_meanwhile`]: { unit: 'count', value: heavy.length },
    // The most starts of an agent minus the fewest: at most 1 when they take turns strictly.
    [`fairness.${name}.agents_apart`]: { unit: 'count', value: Math.max(...counts) - Math.min(...counts) },
  }
}

/** Measures tenants with the default concurrency limit, which depends on the fleet's number of slots. */
async function longRuns(context: BenchContext, queue: FloodedQueue): Promise<Record<string, Measured>> {
  const LONG_MS = 10_000
  const [long, light, short] = ['long-runs', 'light-beside', 'short-alone'] as const
  for (const tenant of [long, light, short]) await create(context, queue, tenant, 1, null)
  const worker = await startWorker(context)
  const waits: number[] = []
  let slotsOfLong = 0
  let slotsOfShort = 0
  try {
    await queue.flood(Array.from({ length: 3 * SLOTS }, (_, n) => runOf(long, `agent-${n}`, LONG_MS)))
    for (let n = 0; n < (context.quick ? 10 : 50); n += 1) {
      const { execution_id } = await queue.producer.put(runOf(light, 'only', 50), { awaitReply: true })
      const result = await queue.producer.wait(execution_id, { timeoutMs: 60_000 })
      if (result?.ok !== true) throw new Error(`light: ${JSON.stringify(result)}`)
      waits.push(result.queue_ms)
      slotsOfLong = Math.max(slotsOfLong, await runningOf(queue, long))
    }
    await queue.producer.cancelTenant(long, { state: 'all', reason: 'measured' })
    await queue.flood(Array.from({ length: 400 }, (_, n) => runOf(short, `agent-${n}`, 200)))
    for (let n = 0; n < (context.quick ? 5 : 10); n += 1) {
      await new Promise((resolve) => setTimeout(resolve, 300))
      slotsOfShort = Math.max(slotsOfShort, await runningOf(queue, short))
    }
  } finally {
    await worker.stop()
  }
  return {
    'fairness.long_runs.wait_of_another': { unit: 'ms', summary: summarise(waits) },
    'fairness.long_runs.slots': { unit: 'count', value: slotsOfLong },
    'fairness.short_runs_alone.slots': { unit: 'count', value: slotsOfShort },
  }
}

const runningOf = async (queue: FloodedQueue, tenant: string): Promise<number> =>
  (await queue.producer.live(tenant, 1000)).filter(({ status }) => status === 'running').length

/**
 * Measures each tenant's share of the slot time while all have work. To that end it leaves out the first
 * tenth of the attempts and the last twentieth.
 */
async function shares(context: BenchContext, queue: FloodedQueue): Promise<Record<string, Measured>> {
  const { store } = context.fleet
  const each = context.quick ? 200 : 3000
  const contests = {
    weight_1_to_4: [
      { tenant: 'one', weight: 1, ms: 20, due: 0.2 },
      { tenant: 'four', weight: 4, ms: 20, due: 0.8 },
    ],
    runs_20_to_200_ms: [
      { tenant: 'short', weight: 1, ms: 20, due: 0.5 },
      { tenant: 'long', weight: 1, ms: 200, due: 0.5 },
    ],
  }
  const results: Record<string, Measured> = {}
  for (const [name, contest] of Object.entries(contests)) {
    for (const { tenant, weight } of contest) {
      await create(context, queue, tenant, weight)
    }
    await queue.flood(
      Array.from({ length: each }).flatMap((_, n) =>
        contest.map(({ tenant, ms }) => runOf(tenant, `agent-${n % 50}`, ms)),
      ),
    )
    const cursor = await now(store)
    const worker = await startWorker(context)
    let ran: Ran[] = []
    try {
      // Waits until one tenant has run 90 % of its executions.
      const most = each * 0.9
      while (countMost(ran) < most) {
        await new Promise((resolve) => setTimeout(resolve, 250))
        ran = await ranSince(store, cursor)
      }
    } finally {
      await worker.stop()
    }
    const counted = ran.slice(Math.floor(ran.length / 10), Math.floor(ran.length * 0.95))
    const total = sum(counted.map((one) => one.slotMs))
    for (const { tenant, due } of contest) {
      const share = sum(counted.filter((one) => one.tenant === tenant).map((one) => one.slotMs)) / total
      results[`fairness.share.${name}.${tenant}`] = { unit: 'ratio', value: round(share / due) }
    }
    await queue.empty()
  }
  return results
}

function countMost(ran: readonly Ran[]): number {
  const counts = new Map<string, number>()
  for (const { tenant } of ran) counts.set(tenant, (counts.get(tenant) ?? 0) + 1)
  return Math.max(0, ...counts.values())
}

async function forecasts(context: BenchContext, queue: FloodedQueue): Promise<Record<string, Measured>> {
  const rounds = context.quick ? 1 : 6
  const tenants = [
    { tenant: 'eta-a', weight: 1, agents: 1, ms: 50 },
    { tenant: 'eta-b', weight: 1, agents: 20, ms: 50 },
    { tenant: 'eta-c', weight: 2, agents: 5, ms: 50 },
    { tenant: 'eta-d', weight: 1, agents: 5, ms: 100 },
  ]
  for (const { tenant, weight } of tenants) {
    await create(context, queue, tenant, weight)
  }
  const etaErrors: number[] = []
  const placeErrors: number[] = []
  const worker = await startWorker(context)
  try {
    // The first batch is not measured. From it the scheduler learns the run lengths.
    await batch(context, queue, tenants, 30)
    for (let n = 0; n < rounds; n += 1) {
      const { said, askedMs, ran } = await batch(context, queue, tenants, context.quick ? 100 : 150)
      const waited = ran.filter((one) => one.startedMs > askedMs)
      for (const [place, one] of waited.entries()) {
        const state = said.get(one.id)
        if (state === undefined || state.eta_ms === null || state.position === null) continue
        if (one.startedMs - askedMs < 500) continue
        etaErrors.push(state.eta_ms / (one.startedMs - askedMs) - 1)
        placeErrors.push((state.position + 1) / (place + 1) - 1)
      }
    }
  } finally {
    await worker.stop()
  }
  const sizes = (errors: readonly number[]) => errors.map(Math.abs)
  const within = (errors: readonly number[]) =>
    sizes(errors).filter((error) => error <= 0.25).length / errors.length
  return {
    'fairness.eta.error': { unit: 'ratio', summary: summarise(sizes(etaErrors)) },
    'fairness.eta.bias': { unit: 'ratio', value: round(quantile(etaErrors, 0.5)) },
    'fairness.eta.within_25_percent': { unit: 'ratio', value: round(within(etaErrors)) },
    'fairness.position.error': { unit: 'ratio', summary: summarise(sizes(placeErrors)) },
    'fairness.position.bias': { unit: 'ratio', value: round(quantile(placeErrors, 0.5)) },
    'fairness.position.within_25_percent': { unit: 'ratio', value: round(within(placeErrors)) },
  }
}

/** Enqueues `each` executions of every tenant, reads the forecasts, and waits until all have ended. */
async function batch(
  { fleet: { store } }: BenchContext,
  queue: FloodedQueue,
  tenants: readonly { tenant: string; agents: number; ms: number }[],
  each: number,
): Promise<{ said: Map<string, ExecutionState>; askedMs: number; ran: Ran[] }> {
  const cursor = await now(store)
  await queue.flood(
    Array.from({ length: each }).flatMap((_, n) =>
      tenants.map(({ tenant, agents, ms }) => runOf(tenant, `agent-${n % agents}`, ms)),
    ),
  )
  const askedMs = Date.now()
  const live = await Promise.all(tenants.map(({ tenant }) => queue.producer.live(tenant, each)))
  const said = new Map(live.flat().map((state) => [state.execution_id, state]))
  let ran: Ran[] = []
  while (ran.length < each * tenants.length) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    ran = await ranSince(store, cursor)
  }
  return { said, askedMs, ran }
}

/** Creates a tenant without caps, and writes its limits to the queue as the API does. */
async function create(
  { fleet }: BenchContext,
  queue: FloodedQueue,
  tenantId: string,
  weight = 1,
  concurrency: number | null = 1000,
): Promise<void> {
  const limits = { weight, concurrency, max_queued: 1_000_000 }
  await fleet.createTenant(tenantId, {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 1_000_000_000, agent_hourly: 1_000_000_000, ...limits },
  })
  await queue.producer.setTenantLimits(tenantId, limits)
}
