/**
 * Keeps as many spare sandboxes as spare-target.ts says, in each pool. A pool with a `warmPool` is scaled
 * through the Kubernetes API. For a pool without one, KEDA or an HPA reads the target from the metric.
 *
 * Only one of them may scale a pool, and only one dispatcher: two would overwrite each other's number.
 */
import type { WarmPool } from '@cofferdam/backend-kubernetes/warm-pool'
import type { DispatcherPoolReading, Logger } from '@cofferdam/telemetry'
import type { ReadDepth } from './read-depth.ts'
import { createSparePlan, type SparePlan } from './spare-plan.ts'
import type { SpareSettings } from './spare-settings.ts'

/**
 * Half of the fastest refill (10 s). With 1 s, a fifth fewer sessions of a simulated day start cold with as
 * many idle pods, for five times the calls.
 */
const EVERY_MS = 5_000

export interface ScaledPool {
  /** The label of its metrics. */
  name: string
  settings: SpareSettings
  /** Null if the dispatcher only publishes metrics, and something else scales the pool. */
  warmPool: WarmPool | null
}

export interface ScaledEnvironment {
  id: string
  /** Name of the pool that its sessions take sandboxes from. */
  pool: string
  /** Null without an API key: then an empty poll means 0, and otherwise the depth is unknown. */
  readDepth: ReadDepth | null
}

export interface ScalerOptions {
  environments: readonly ScaledEnvironment[]
  pools: readonly ScaledPool[]
  logger: Pick<Logger, 'info' | 'warn'>
  /** Time between two steps. Null: the caller steps. Default 5,000. */
  everyMs?: number | null
  /** A monotonic clock in milliseconds. Default `performance.now`. */
  now?: () => number
}

/** Methods that take an environment throw for one that the scaler was not created with. */
export interface Scaler extends AsyncDisposable {
  /** Reads depths and sets each pool. Never rejects. A call during a step returns that step. */
  step(): Promise<void>
  /** A work item was claimed. Its session may still have a sandbox. */
  onArrival(environmentId: string): void
  /** The item of an arrival has ended. */
  onSessionEnd(environmentId: string): void
  /** A poll found no item. */
  onEmptyPoll(environmentId: string): void
  /** A new session's sandbox was ready `tookMs` after it was asked for. */
  onSandboxReady(environmentId: string, tookMs: number): void
  /** For `instruments.observeDispatcher`. */
  readings(): DispatcherPoolReading[]
}

interface Environment extends ScaledEnvironment {
  /** Null if it is unknown. */
  depth: number | null
  isDepthFailing: boolean
}

interface Pool extends ScaledPool {
  plan: SparePlan
  environments: Environment[]
  sessions: number
  /** The problem that was logged for this pool and is not over. Null if there is none. */
  trouble: 'gone' | 'failing' | null
}

/** Starts its timer unless `everyMs` is null. Throws if an environment names a pool that does not exist. */
export function createScaler(options: ScalerOptions): Scaler {
  const { logger, everyMs = EVERY_MS, now = () => performance.now() } = options
  const pools = options.pools.map((pool): Pool => {
    const plan = createSparePlan(pool.settings, now())
    return { ...pool, plan, environments: [], sessions: 0, trouble: null }
  })
  const known = new Map<string, { pool: Pool; environment: Environment }>()
  for (const given of options.environments) {
    const pool = pools.find(({ name }) => name === given.pool)
    if (pool === undefined) throw new Error(`environment ${given.id}: there is no pool "${given.pool}"`)
    const environment = { ...given, depth: null, isDepthFailing: false }
    pool.environments.push(environment)
    known.set(given.id, { pool, environment })
  }
  const closing = new AbortController()
  let running: Promise<void> | null = null
  const timer = everyMs === null ? null : setInterval(() => void step(), everyMs)
  timer?.unref()

  function of(environmentId: string): { pool: Pool; environment: Environment } {
    const found = known.get(environmentId)
    if (found === undefined) throw new Error(`unknown environment ${environmentId}`)
    return found
  }

  function step(): Promise<void> {
    if (closing.signal.aborted) return Promise.resolve()
    running ??= Promise.all(pools.map(stepPool)).then(() => {
      running = null
    })
    return running
  }

  async function stepPool(pool: Pool): Promise<void> {
    await Promise.all(pool.environments.map(updateDepth))
    const { warmPool, plan } = pool
    // Undefined if there is no answer. The next step asks again.
    const failed = (err: unknown): undefined => {
      tell(pool, 'failing', err)
    }
    const told = warmPool === null ? undefined : await warmPool.replicas(closing.signal).catch(failed)
    const spare = plan.next(now(), depthOf(pool) ?? 0, told ?? null)
    if (warmPool === null || told === undefined) return
    const isSet = told === null || told === spare
    const after = isSet ? told : await warmPool.scale(spare, closing.signal).catch(failed)
    if (after !== undefined) tell(pool, after === null ? 'gone' : null)
  }

  async function updateDepth(environment: Environment): Promise<void> {
    if (environment.readDepth === null) return
    try {
      environment.depth = await environment.readDepth(environment.id, closing.signal)
      environment.isDepthFailing = false
    } catch (error) {
      environment.depth = null
      if (closing.signal.aborted || environment.isDepthFailing) return
      environment.isDepthFailing = true
      const facts = { environment_id: environment.id, err: error }
      logger.warn(facts, 'the depth of an environment could not be read')
    }
  }

  /** Logs each problem once, and once more when it is over. */
  function tell(pool: Pool, trouble: Pool['trouble'], err?: unknown): void {
    if (trouble === pool.trouble || closing.signal.aborted) return
    pool.trouble = trouble
    if (trouble === 'gone') logger.warn({ pool: pool.name }, 'a warm pool is gone')
    else if (trouble === 'failing') logger.warn({ pool: pool.name, err }, 'a warm pool could not be scaled')
    else logger.info({ pool: pool.name }, 'a warm pool is scaled again')
  }

  return {
    step,
    onArrival(environmentId) {
      const { pool, environment } = of(environmentId)
      pool.sessions += 1
      // More items may be waiting. Only the statistics would tell, so without them the depth is unknown.
      if (environment.readDepth === null) environment.depth = null
      pool.plan.arrived(now())
    },
    onSessionEnd(environmentId) {
      const { pool } = of(environmentId)
      pool.sessions = Math.max(0, pool.sessions - 1)
    },
    onEmptyPoll(environmentId) {
      of(environmentId).environment.depth = 0
    },
    onSandboxReady(environmentId, tookMs) {
      of(environmentId).pool.plan.sandboxReady(tookMs, now())
    },
    readings: () =>
      pools.map((pool) => ({
        pool: pool.name,
        spareTarget: pool.plan.spare,
        sessions: pool.sessions,
        depth: depthOf(pool),
      })),
    async [Symbol.asyncDispose]() {
      if (timer !== null) clearInterval(timer)
      closing.abort(new Error('the scaler is closed'))
      await running
    },
  }
}

/** The sum of the known depths. Null if none is known. */
function depthOf({ environments }: Pool): number | null {
  const depths = environments.flatMap(({ depth }) => (depth === null ? [] : [depth]))
  return depths.length === 0 ? null : depths.reduce((sum, depth) => sum + depth, 0)
}
