/** A private Postgres: unix socket only, ends with this process, keeps its data if `durable`. */
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
import { socketDirectory, type SocketDirectory } from './socket-directory.ts'
import { runningServer, supervise, type Supervised } from './supervise.ts'

/** Crash recovery of a busy server takes seconds, and five times as long on a loaded 2-core machine. */
const READY_MS = 120_000
/** initdb takes 0.5-1.6 s on an idle machine. */
const INIT_MS = 120_000
/** A fast shutdown writes a checkpoint. An immediate shutdown (SIGQUIT) only makes the children quit. */
const STOP_GRACE_MS = 20_000
const DATABASE = 'cofferdam'
/** Postgres names its socket after the port, although a socket-only server does not listen on it. */
const SOCKET = '.s.PGSQL.5432'

export interface PostgresOptions extends StartOptions {
  /** Where to look for a server. Default: the npm package, then an installed Postgres. */
  sources?: readonly PostgresSource[]
  /** Folder for a copy of the package if node_modules is not writable. Default: `~/.cache/cofferdam`. */
  cacheDir?: string
  /** Whether root tries a user namespace. Default true. */
  userNamespace?: boolean
}

/**
 * Starts a Postgres in `dataDir`, creates the database `cofferdam`, and resolves when it accepts queries.
 * Throws `EmbeddedServerError`: `server_missing`, `directory_in_use` or `start_failed`.
 */
export async function startPostgres(options: PostgresOptions): Promise<RunningServer> {
  const cacheDir = options.cacheDir ?? join(homedir(), '.cache', 'cofferdam')
  const claim = await claimDirectory(options.dataDir, 'Postgres')
  let socket: SocketDirectory | null = null
  let server: Supervised | null = null
  try {
    const found = await findPostgres(options.sources ?? ['package', 'system'], cacheDir)
    const account = await postgresAccount(found, options.dataDir, options.userNamespace)
    await initialise(account, options)
    socket = socketDirectory(options.dataDir, SOCKET)
    account.own(socket.dir)
    server = await launch(account, options, socket.dir)
    claim.record(server.pid, socket.temporaryDir)
    const socketDir = socket.dir
    await server.ready(() => takesQueries(socketDir), READY_MS)
    await createDatabase(socketDir)
    return runningServer(server, urlOf(socketDir), account.how, {
      // SIGINT is a fast shutdown, SIGQUIT an immediate one.
      signals: ['SIGINT', 'SIGQUIT', 'SIGKILL'],
      graceMs: STOP_GRACE_MS,
      cleanUp() {
        socket?.remove()
        claim.release()
      },
    })
  } catch (error) {
    await server?.stop(['SIGQUIT', 'SIGKILL'], STOP_GRACE_MS)
    socket?.remove()
    claim.release()
    throw error
  }
}

const dataOf = (options: StartOptions): string => join(options.dataDir, 'pgdata')
const urlOf = (socketDir: string): string =>
  `postgres://postgres@/${DATABASE}?host=${encodeURIComponent(socketDir)}`

/** Runs initdb in a fresh folder and renames it, so that an interrupted run never looks complete. */
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
        `Install version ${kept}, or move the folder away to start with an empty database ` +
        '(dump the old one first with its version).',
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
    // Enough for api, worker, cli and dashboard with pools of 10 each, or for two dozen test files at once.
    max_connections: '200',
    // Dropping many expired partitions locks each of them with its indexes and triggers.
    max_locks_per_transaction: '256',
    // Our queries are short, so compiling them costs more than running them.
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
  // If the server ends, the query fails. Without a listener the error would crash this process.
  client.on('error', () => {})
  try {
    await client.connect()
    return await use(client)
  } finally {
    await client.end().catch(() => {})
  }
}

function command(argv: readonly string[]): [string, ...string[]] {
  const [file = '', ...args] = argv
  return [file, ...args]
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
