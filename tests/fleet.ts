/**
 * A whole fleet for tests and benches: its own Redis and database, workers as child processes, tenants to
 * enqueue for. Everything is ended by `await using`; a worker can be killed on the way.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { createAdmission, type Admission } from '@cofferdam/admission'
import { createBackends } from '@cofferdam/backends'
import { startPostgres, startRedis, type PostgresOptions } from '@cofferdam/embedded'
import { fleetOf, type TenantCaps, type TenantPolicy } from '@cofferdam/contract'
import { createClient, type Client } from '@cofferdam/client'
import { connectRedis } from '@cofferdam/queue'
import { createStore, migrate, type Store } from '@cofferdam/store'
import { DAY_MS, untilWindowLasts } from '../libs/embedded/src/window-end.ts'

// With compiled code that scripts/bootstrap.mjs keeps, a worker starts with 1.0 instead of 1.6 CPU seconds.
const { PATH = '', NODE_COMPILE_CACHE = '', DOCKER_HOST } = process.env
/** Where this machine's Docker is, when it is not where everybody looks. */
const docker = DOCKER_HOST === undefined ? {} : { DOCKER_HOST }
const WORKER = fileURLToPath(new URL('../apps/worker/src/main.ts', import.meta.url))

export interface FleetWorker {
  process: ChildProcess
  /** Everything it logged so far. */
  log(): string
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** SIGTERM; resolves with its exit code. */
  stop(): Promise<number | null>
}

export interface Fleet extends AsyncDisposable {
  redisUrl: string
  databaseUrl: string
  dataDir: string
  client: Client
  store: Store
  /**
   * `entry`: another program than the worker app, e.g. one that stops at a chosen point. `within`: a command that becomes
   * the worker in another place, e.g. `ip netns exec NAME`.
   */
  startWorker(env?: Record<string, string>, entry?: URL, within?: readonly string[]): Promise<FleetWorker>
  /** SIGTERM to all workers; resolves when they are gone. */
  stopWorkers(): Promise<void>
  createTenant(
    tenantId: string,
    options?: { policy?: Partial<TenantPolicy>; caps?: Partial<TenantCaps> },
  ): Promise<void>
  admission: Admission
  /** A clean stop of its own Postgres; the data stays. */
  stopPostgres(): Promise<void>
  startPostgres(): Promise<void>
  /** SIGTERM, then a new server on the same data and socket. */
  restartRedis(): Promise<void>
  /** Stops Redis, lets `change` do something to its files, and starts it again. */
  changeRedis(change: () => Promise<void>): Promise<void>
  /** Process ids of its own servers; null for a Redis that was brought along. */
  pids(): { redis: number | null; postgres: number }
}

export interface FleetOptions {
  /** As in production: what was committed survives a restart. With a Postgres of its own. Default false. */
  durable?: boolean
  /**
   * A Postgres that only this fleet uses, so that it can be stopped; it costs 2 CPU seconds. Default: a
   * database of the test run's.
   */
  ownPostgres?: boolean
  /** A Redis that the caller started (a cluster, Sentinels). Default: a private one. */
  redisUrl?: string
}

/** Starts the stores; `durable` as in production. Workers are started by the caller. */
export async function startFleet(options: FleetOptions = {}): Promise<Fleet> {
  // Most files that use a fleet are done by then.
  await untilWindowLasts(DAY_MS, 120_000)
  const durable = options.durable ?? false
  const dataDir = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-fleet-'))
  // Root's Postgres is another user where there are no user namespaces, and must be able to enter.
  await chmod(dataDir, 0o711)
  const redisOptions = { dataDir: path.join(dataDir, 'redis'), durable }
  const postgresOptions = { dataDir: path.join(dataDir, 'postgres'), durable }
  const [startedRedis, database] = await Promise.all([
    options.redisUrl === undefined ? startRedis(redisOptions) : null,
    durable || options.ownPostgres === true ? ownDatabase(postgresOptions) : sharedDatabase(),
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
    // A worker that stood still for a second falls back on its outbox; what a test sets up or reads has none.
    timeouts: { connectMs: 30_000, statementMs: 30_000 },
  })
  const client = createClient({ redisUrl })
  const admissionRedis = connectRedis(redisUrl, 'worker')
  const admission = createAdmission({
    redis: admissionRedis,
    countCharged: (tenantId, atMs, unsettled) => store.chargedCounts(tenantId, atMs, unsettled),
  })
  const workers: FleetWorker[] = []

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
        {
          REDIS_URL: redisUrl,
          DATABASE_URL: database.url,
          COFFERDAM_DATA_DIR: dataDir,
          COFFERDAM_LOG_LEVEL: 'warn',
          ...env,
        },
        within,
      )
      workers.push(worker)
      return worker
    },
    async stopWorkers() {
      await Promise.all(workers.splice(0).map((worker) => worker.stop()))
    },
    async createTenant(tenantId, { policy = {}, caps = {} } = {}) {
      await store.tenants.create({ tenant_id: tenantId, policy, caps }, 'test')
    },
    async [Symbol.asyncDispose]() {
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

/** In a server that only this fleet uses; it lies in the fleet's folder, which goes with it. */
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

async function sharedDatabase(): Promise<FleetDatabase> {
  // It needs a vitest run, which a bench is not.
  const { createTestDatabase } = await import('@cofferdam/store/testing')
  const database = await createTestDatabase()
  const refuse = (): never => {
    throw new Error('this fleet has no Postgres of its own: ask for `ownPostgres`')
  }
  return { url: database.url, stop: refuse, start: refuse, pid: refuse, remove: () => database.drop() }
}

/**
 * What a killed worker leaves on the host is swept by another worker of its fleet, within a minute. A fleet that ends sooner does it
 * here, with the same calls: no other fleet may (docs/decisions/0004).
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
  // The worker tells its parent over IPC when it takes executions.
  const ready = await Promise.race([once(child, 'message').then(() => true), exited.then(() => false)])
  if (!ready) throw new Error(`the worker ended before it was ready:\n${log}`)
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal)
      // A stopped one hears it only then.
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
