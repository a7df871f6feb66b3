/**
 * A whole fleet for tests and benches: its own Redis and database, workers as child processes, and tenants.
 * `await using` ends everything. A worker can be killed earlier.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { createAdmission, type Admission } from '@cofferdam/admission'
import type { RunningApi } from '@cofferdam/api'
import { createBackends } from '@cofferdam/backends'
import type { RunningDispatcher } from '@cofferdam/dispatcher'
import { startPostgres, startRedis, type PostgresOptions } from '@cofferdam/embedded'
import { fleetOf, type TenantCaps, type TenantPolicy } from '@cofferdam/contract'
import { createQueueClient, type Client } from '@cofferdam/client/queue'
import { connectRedis } from '@cofferdam/queue'
import { createStore, migrate, type BucketSettings, type Store } from '@cofferdam/store'
import type { RunningWorker } from '@cofferdam/worker'
import { DAY_MS, untilWindowLasts } from '../libs/embedded/src/window-end.ts'
import type { Environment, RunsHere } from './run-here.ts'

// With compiled code that scripts/bootstrap.mjs keeps, a worker starts in 1.0 instead of 1.6 CPU seconds.
const { PATH = '', NODE_COMPILE_CACHE = '', DOCKER_HOST } = process.env
/** Passes on the address of Docker if it is not the default one. */
const docker = DOCKER_HOST === undefined ? {} : { DOCKER_HOST }
const WORKER = fileURLToPath(new URL('../apps/worker/src/main.ts', import.meta.url))

export interface FleetWorker {
  process: ChildProcess
  /** Everything that the worker logged so far. */
  log(): string
  /** Sends SIGKILL. Resolves when the process is gone. */
  kill(): Promise<void>
  /** Sends SIGTERM. Resolves with the exit code. */
  stop(): Promise<number | null>
}

export interface Fleet extends AsyncDisposable {
  redisUrl: string
  databaseUrl: string
  dataDir: string
  client: Client
  store: Store
  /**
   * `entry`: another program than the worker app, for example one that stops at a chosen point. `within`: a
   * command that starts the worker elsewhere, for example `ip netns exec NAME`.
   */
  startWorker(env?: Record<string, string>, entry?: URL, within?: readonly string[]): Promise<FleetWorker>
  /** Runs a worker in this process (run-here.ts), for tests that neither kill it nor read its log. */
  runWorker(env?: Environment): Promise<RunningWorker>
  /** Runs an API in this process, on a free port. */
  runApi(env?: Environment): Promise<RunningApi>
  /** Runs a dispatcher in this process. */
  runDispatcher(env: Environment): Promise<RunningDispatcher>
  /** Drains all workers. Resolves when they are gone. */
  stopWorkers(): Promise<void>
  createTenant(
    tenantId: string,
    options?: { policy?: Partial<TenantPolicy>; caps?: Partial<TenantCaps> },
  ): Promise<void>
  admission: Admission
  /** Stops the fleet's own Postgres cleanly. The data stays. */
  stopPostgres(): Promise<void>
  startPostgres(): Promise<void>
  /** Sends SIGTERM, then starts a new server on the same data and socket. */
  restartRedis(): Promise<void>
  /** Stops Redis, lets `change` edit its files, and starts it again. */
  changeRedis(change: () => Promise<void>): Promise<void>
  /** Process IDs of the fleet's own servers. Null for a Redis that the caller started. */
  pids(): { redis: number | null; postgres: number }
}

export interface FleetOptions {
  /** Keeps committed data over a restart, as in production. Implies `ownPostgres`. Default false. */
  durable?: boolean
  /**
   * Starts a Postgres that only this fleet uses, so that it can be stopped. It costs 2 CPU seconds. Default:
   * a database in the Postgres of the test run.
   */
  ownPostgres?: boolean
  /** Number of the newest migration that the database has. Default: all. Not with a Postgres of its own. */
  schema?: number
  /** A Redis that the caller started (a cluster, Sentinels). Default: a private one. */
  redisUrl?: string
  /** Keeps blobs in a bucket that the caller started. `env` is for workers. Default: a folder. */
  bucket?: { settings: BucketSettings; env: Record<string, string> }
}

/** Starts the stores. The caller starts the workers. */
export async function startFleet(options: FleetOptions = {}): Promise<Fleet> {
  // The day must not end during a test. Most files that use a fleet are done within two minutes.
  await untilWindowLasts(DAY_MS, 120_000)
  const durable = options.durable ?? false
  const dataDir = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-fleet-'))
  // If root has no user namespaces, its Postgres runs as another user. That user must be able to enter this
  // folder.
  await chmod(dataDir, 0o711)
  const redisOptions = { dataDir: path.join(dataDir, 'redis'), durable }
  const postgresOptions = { dataDir: path.join(dataDir, 'postgres'), durable }
  const [startedRedis, database] = await Promise.all([
    options.redisUrl === undefined ? startRedis(redisOptions) : null,
    durable || options.ownPostgres === true ? ownDatabase(postgresOptions) : sharedDatabase(options.schema),
  ])
  let redis = startedRedis
  const redisUrl = options.redisUrl ?? redis?.url ?? ''
  const changeRedis = async (change: () => Promise<void>): Promise<void> => {
    await redis?.stop()
    await change()
    redis = await startRedis(redisOptions)
  }
  const store = await createStore({
    databaseUrl: database.url,
    blobDir: path.join(dataDir, 'blobs'),
    bucket: options.bucket?.settings,
    // Longer than a worker's timeouts: a worker that cannot reach Postgres uses its outbox, but the test
    // itself has none.
    timeouts: { connectMs: 30_000, statementMs: 30_000 },
  })
  const client = createQueueClient({ redisUrl })
  const admissionRedis = connectRedis(redisUrl, 'worker')
  const admission = createAdmission({
    redis: admissionRedis,
    countCharged: (tenantId, atMs, unsettled) => store.chargedCounts(tenantId, atMs, unsettled),
  })
  const workers: FleetWorker[] = []
  const stores = { REDIS_URL: redisUrl, DATABASE_URL: database.url, COFFERDAM_DATA_DIR: dataDir }
  let here: RunsHere | null = null
  // Loads the apps into this process only on request, because most fleets start them as processes of their
  // own.
  const runsHere = async (): Promise<RunsHere> => {
    const { createRunsHere } = await import('./run-here.ts')
    return (here ??= createRunsHere({ ...stores, ...options.bucket?.env }))
  }

  return {
    redisUrl,
    databaseUrl: database.url,
    dataDir,
    client,
    store,
    admission,
    stopPostgres: () => database.stop(),
    startPostgres: () => database.start(),
    restartRedis: () => changeRedis(async () => undefined),
    changeRedis,
    pids: () => ({ redis: redis?.pid ?? null, postgres: database.pid() }),
    async startWorker(env = {}, entry, within = []) {
      const worker = await spawnWorker(
        entry === undefined ? WORKER : fileURLToPath(entry),
        { ...stores, COFFERDAM_LOG_LEVEL: 'warn', ...options.bucket?.env, ...env },
        within,
      )
      workers.push(worker)
      return worker
    },
    runWorker: async (env = {}) => (await runsHere()).runWorker(env),
    runApi: async (env = {}) => (await runsHere()).runApi(env),
    runDispatcher: async (env) => (await runsHere()).runDispatcher(env),
    async stopWorkers() {
      await Promise.all([here?.closeWorkers(), ...workers.splice(0).map((worker) => worker.stop())])
    },
    async createTenant(tenantId, { policy = {}, caps = {} } = {}) {
      await store.tenants.create({ tenant_id: tenantId, policy, caps }, 'test')
    },
    async [Symbol.asyncDispose]() {
      await here?.[Symbol.asyncDispose]()
      await Promise.all(workers.map((worker) => worker.stop()))
      if (workers.some((worker) => worker.process.signalCode === 'SIGKILL'))
        await sweepJails(await admissionRedis.get('{cofferdam}:fleet'))
      await client.close()
      admissionRedis.disconnect()
      await store[Symbol.asyncDispose]()
      await Promise.all([redis?.stop(), database.remove()])
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

interface FleetDatabase {
  url: string
  stop(): Promise<void>
  start(): Promise<void>
  pid(): number
  remove(): Promise<void>
}

/** A database in a server that only this fleet uses. Its data is deleted with the fleet's folder. */
async function ownDatabase(options: PostgresOptions): Promise<FleetDatabase> {
  let server = await startPostgres(options)
  await migrate(server.url)
  return {
    url: server.url,
    stop: () => server.stop(),
    async start() {
      server = await startPostgres(options)
    },
    pid: () => server.pid,
    remove: () => server.stop(),
  }
}

async function sharedDatabase(schema?: number): Promise<FleetDatabase> {
  // Imported only here, because a test database needs a vitest run, and a bench is not one.
  const { createTestDatabase, migrateUpTo } = await import('@cofferdam/store/testing')
  const database = await createTestDatabase({ template: schema === undefined })
  if (schema !== undefined) await migrateUpTo(database.url, schema)
  const refuse = (): never => {
    throw new Error('this fleet has no Postgres of its own: ask for `ownPostgres`')
  }
  return { url: database.url, stop: refuse, start: refuse, pid: refuse, remove: () => database.drop() }
}

/**
 * Removes what killed workers left on the host. Other workers of the fleet would do so within a minute, but a
 * fleet may end sooner, and no other fleet may do it (docs/decisions/0004).
 */
async function sweepJails(fleetId: string | null): Promise<void> {
  const backends = await createBackends({ process: {}, none: {} })
  for (const backend of backends.values()) {
    await using closing = backend
    const ours = (await closing.owners()).filter((owner) => fleetOf(owner) === fleetId)
    await Promise.all(ours.map((owner) => closing.sweep(owner)))
  }
}

async function spawnWorker(
  program: string,
  env: Record<string, string>,
  within: readonly string[],
): Promise<FleetWorker> {
  const [command, ...words] = [...within, process.execPath, program]
  const child = spawn(command, words, {
    env: { PATH, NODE_COMPILE_CACHE, ...docker, HOME: os.tmpdir(), ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  let log = ''
  const keep = (chunk: Buffer) => {
    log = (log + chunk.toString()).slice(-1_000_000)
  }
  child.stdout?.on('data', keep)
  child.stderr?.on('data', keep)
  const exited = once(child, 'exit')
  // The worker tells its parent over IPC when it is ready to take executions.
  const ready = await Promise.race([once(child, 'message').then(() => true), exited.then(() => false)])
  if (!ready) throw new Error(`the worker ended before it was ready:\n${log}`)
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal)
      // A stopped process gets the signal only after it continues.
      child.kill('SIGCONT')
    }
    await exited
  }
  return {
    process: child,
    log: () => log,
    kill: () => end('SIGKILL'),
    stop: async () => {
      await end('SIGTERM')
      return child.exitCode
    },
  }
}
