/** A private Postgres for this process: unix socket only, dies with us, keeps its data when `durable`. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { claimDirectory } from './claim-directory.ts'
import { EmbeddedServerError } from './embedded-server-error.ts'
import { findPostgres, type PostgresSource } from './find-postgres.ts'
import { dieWithParent, runProgram } from './find-program.ts'
import { postgresAccount, type Account } from './postgres-account.ts'
import type { RunningServer, StartOptions } from './running-server.ts'
import { socketPlace, type SocketPlace } from './socket-place.ts'
import { supervise, type Supervised } from './supervise.ts'

/** Crash recovery of a busy server takes seconds; a loaded 2-core machine five times as long. */
const READY_MS = 120_000
/** initdb takes 0.5-1.6 s (toolchain.md §5). */
const INIT_MS = 120_000
/** A fast shutdown writes a checkpoint; an immediate one (SIGQUIT) only asks the children to quit. */
const STOP_GRACE_MS = 20_000
const DATABASE = 'cofferdam'
/** Postgres names its socket for the port, which no socket-only server listens on. */
const SOCKET = '.s.PGSQL.5432'

export interface PostgresOptions extends StartOptions {
  /** Where to look for a server. Default: the npm package, then an installed one. */
  sources?: readonly PostgresSource[]
  /** Where a copy of the package is kept when node_modules cannot be written. Default: `~/.cache/cofferdam`. */
  cacheDir?: string
  /** False: root does not try a user namespace. Default true. */
  userNamespace?: boolean
}

/**
 * Starts a Postgres in `dataDir`, makes the database `cofferdam`, and resolves when it takes queries. Throws
 * `EmbeddedServerError`: `server_missing`, `directory_in_use` or `start_failed`.
 */
export async function startPostgres(options: PostgresOptions): Promise<RunningServer> {
  const cacheDir = options.cacheDir ?? join(homedir(), '.cache', 'cofferdam')
  const claim = await claimDirectory(options.dataDir, 'Postgres')
  let place: SocketPlace | null = null
  let server: Supervised | null = null
  try {
    const found = await findPostgres(options.sources ?? ['package', 'system'], cacheDir)
    const account = await postgresAccount(found, options.dataDir, options.userNamespace)
    await initialise(account, options)
    place = socketPlace(options.dataDir, SOCKET)
    account.own(place.dir)
    server = await launch(account, options, place.dir)
    claim.record(server.pid, place.temporaryDir)
    const socketDir = place.dir
    await server.ready(() => takesQueries(socketDir), READY_MS)
    await createDatabase(socketDir)
    return running(server, urlOf(socketDir), account.how, () => {
      place?.remove()
      claim.release()
    })
  } catch (error) {
    await server?.stop(['SIGQUIT', 'SIGKILL'], STOP_GRACE_MS)
    place?.remove()
    claim.release()
    throw error
  }
}

const dataOf = (options: StartOptions): string => join(options.dataDir, 'pgdata')
const urlOf = (socketDir: string): string =>
  `postgres://postgres@/${DATABASE}?host=${encodeURIComponent(socketDir)}`

/** initdb into a fresh folder, then rename: an interrupted one leaves nothing that looks like a database. */
async function initialise(account: Account, options: PostgresOptions): Promise<void> {
  const data = dataOf(options)
  if (existsSync(join(data, 'PG_VERSION'))) return await checkVersion(account, data)
  const fresh = `${data}.new`
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { mode: 0o700 })
  account.own(fresh)
  const argv = [
    ...account.prefix,
    account.programs.initdb,
    '-D',
    fresh,
    '--username=postgres',
    '--auth=trust',
    '--encoding=UTF8',
    '--locale=C',
    ...(options.durable ? [] : ['--no-sync']),
  ]
  try {
    await runProgram(command(argv), { ...account.identity, cwd: '/', timeoutMs: INIT_MS })
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true })
    throw new EmbeddedServerError('start_failed', `Postgres: initdb failed: ${messageOf(error)}`, error)
  }
  renameSync(fresh, data)
}

async function checkVersion(account: Account, data: string): Promise<void> {
  const kept = readFileSync(join(data, 'PG_VERSION'), 'utf8').trim()
  const text = await runProgram([account.programs.postgres, '--version'], { cwd: '/', timeoutMs: 10_000 })
  const major = /(\d+)/.exec(text)?.[1] ?? '?'
  if (major !== kept)
    throw new EmbeddedServerError(
      'start_failed',
      `Postgres: ${data} was made by version ${kept} and this is ${major} (${account.how}). ` +
        `Install version ${kept}, or move the folder away to begin anew (dump it first with the old version).`,
    )
}

async function launch(account: Account, options: PostgresOptions, socketDir: string): Promise<Supervised> {
  const argv = [
    ...account.prefix,
    ...(await dieWithParent('INT')),
    account.programs.postgres,
    '-D',
    dataOf(options),
    ...Object.entries(settings(options.durable, socketDir)).flatMap(([k, v]) => ['-c', `${k}=${v}`]),
  ]
  return await supervise(
    'Postgres',
    { argv: command(argv), cwd: '/', env: { LC_ALL: 'C' }, ...account.identity },
    options.log ?? (() => {}),
  )
}

function settings(durable: boolean, socketDir: string): Record<string, string> {
  return {
    listen_addresses: '',
    port: '5432',
    unix_socket_directories: socketDir,
    unix_socket_permissions: '0700',
    shared_buffers: '64MB',
    // api, worker, cli and a dashboard with pools of 10 each, or two dozen test files at once.
    max_connections: '200',
    // A drop of many expired partitions locks each with its indexes and triggers.
    max_locks_per_transaction: '256',
    // Our queries are short: compiling them costs more than running them.
    jit: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    log_checkpoints: 'off',
    ...(durable
      ? {}
      : {
          fsync: 'off',
          synchronous_commit: 'off',
          full_page_writes: 'off',
          wal_level: 'minimal',
          max_wal_senders: '0',
        }),
  }
}

async function takesQueries(socketDir: string): Promise<boolean> {
  try {
    return await withClient(socketDir, 'postgres', async (client) => {
      await client.query('select 1')
      return true
    })
  } catch {
    return false
  }
}

async function createDatabase(socketDir: string): Promise<void> {
  await withClient(socketDir, 'postgres', async (client) => {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [DATABASE])
    if (rowCount === 0) await client.query(`create database ${DATABASE}`)
  })
}

async function withClient<T>(
  socketDir: string,
  database: string,
  use: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({
    host: socketDir,
    user: 'postgres',
    database,
    connectionTimeoutMillis: 2000,
  })
  // A server that goes away while we are connected is told through the query; without a listener it would throw.
  client.on('error', () => {})
  try {
    await client.connect()
    return await use(client)
  } finally {
    await client.end().catch(() => {})
  }
}

function running(server: Supervised, url: string, how: string, cleanUp: () => void): RunningServer {
  let stopping: Promise<void> | null = null
  return {
    url,
    how,
    pid: server.pid,
    exited: server.exited,
    stop() {
      // SIGINT: fast shutdown; SIGQUIT: immediate.
      stopping ??= server.stop(['SIGINT', 'SIGQUIT', 'SIGKILL'], STOP_GRACE_MS).finally(cleanUp)
      return stopping
    },
  }
}

function command(argv: readonly string[]): [string, ...string[]] {
  const [file = '', ...args] = argv
  return [file, ...args]
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
