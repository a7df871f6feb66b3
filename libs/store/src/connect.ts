/**
 * Connections to Postgres under a role. A process logs in as the schema's owner, or as any user that may take
 * the roles. No statement runs before `SET ROLE` succeeded, so a setup mistake fails instead of widening
 * rights.
 */
import { Kysely, PostgresDialect, sql, type PostgresPool, type Transaction } from 'kysely'
import pg from 'pg'
import { UnansweredError, wasCutOff } from './store-errors.ts'
import type { StoreLogger } from './store-logger.ts'
import type { Database } from './tables.ts'

export type StoreRole = 'cofferdam_app' | 'cofferdam_all_tenants' | 'cofferdam_sweeper'

export interface Timeouts {
  /** Time to connect. Default 1,000 ms. A live server takes 2 ms. */
  connectMs: number
  /** Time for one statement, enforced by the server. Default 2,000 ms. A batch of 100 rows takes 5 ms. */
  statementMs: number
}

export const DEFAULT_TIMEOUTS: Timeouts = { connectMs: 1000, statementMs: 2000 }
/** The client waits this much longer than the server before it gives up a silent connection. */
const SILENCE_MS = 250

export interface Connection {
  db: Kysely<Database>
  close(): Promise<void>
}

export interface ConnectOptions {
  databaseUrl: string
  role: StoreRole
  /** Most connections at once. */
  max: number
  timeouts: Timeouts
  logger: StoreLogger
  /** Statements that each connection prepares: text → name. */
  prepared?: ReadonlyMap<string, string>
}

/** Creates a pool, which connects at the first query. */
export function connect(options: ConnectOptions): Connection {
  const { databaseUrl, role, max, timeouts, logger, prepared = new Map<string, string>() } = options
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max,
    connectionTimeoutMillis: timeouts.connectMs,
    statement_timeout: timeouts.statementMs,
    query_timeout: timeouts.statementMs + SILENCE_MS,
    // Shorter than the idle timeout of common firewalls and proxies.
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    application_name: role,
    types: { getTypeParser },
    // Called once per new connection. Without the role, the pool discards it.
    verify: (client, done) => {
      client.query(`set role ${role}`, (error: Error | null) => done(error ?? undefined))
    },
  })
  let closing = false
  // Without a listener, a server stop would crash the process. Logs the message only, because pg attaches the
  // client to the error. Logs nothing while closing: `end` resolves before the last socket closes, so an
  // error is then expected.
  pool.on('error', (error) => {
    if (!closing) logger.warn({ reason: error.message, role }, 'an idle Postgres connection was lost')
  })
  // While `verify` runs, the pool does not listen for errors of the connection. Ignore them here: the query
  // of `verify` then fails and reports the loss.
  pool.on('connect', (client) => client.on('error', () => undefined))
  const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool: discarding(pool, prepared) }) })
  return {
    db,
    async close() {
      closing = true
      // A dead server never answers, so wait for it only as long as for a statement. The kernel closes the
      // connections when the process ends.
      await Promise.race([pool.end(), afterUnref(timeouts.statementMs)])
    },
  }
}

/** Runs `work` as one tenant: row-level security hides the rows of all others. */
export function asTenant<T>(
  db: Kysely<Database>,
  tenantId: string,
  work: (tx: Transaction<Database>) => Promise<T>,
): Promise<T> {
  return db.transaction().execute(async (tx) => {
    await sql`select set_config('app.tenant_id', ${tenantId}, true)`.execute(tx)
    return await work(tx)
  })
}

/**
 * kysely returns a connection to the pool after any error. A connection that timed out still waits for the
 * old answer, so every later query would get the answer to the query before. Such a connection is closed.
 */
function discarding(pool: pg.Pool, prepared: ReadonlyMap<string, string>): PostgresPool {
  return {
    connect: async () => watched(await pool.connect(), prepared),
    end: () => pool.end(),
    options: pool.options,
  }
}

function watched(client: pg.PoolClient, prepared: ReadonlyMap<string, string>): pg.PoolClient {
  let broken = false
  // The pool does not listen for errors of a connection that is in use.
  const onError = (): void => {
    broken = true
  }
  client.on('error', onError)
  const query = async (text: string, values: unknown[]): Promise<pg.QueryResult> => {
    const name = prepared.get(text)
    try {
      return await client.query(name === undefined ? { text, values } : { name, text, values })
    } catch (error) {
      // After an error that the server reported, the connection is still usable.
      if (error instanceof pg.DatabaseError && !wasCutOff(error)) throw error
      broken = true
      throw new UnansweredError(error)
    }
  }
  const release = (destroy?: boolean): void => {
    client.off('error', onError)
    client.release(destroy === true || broken)
  }
  return new Proxy(client, {
    get(target, property): unknown {
      if (property === 'query') return query
      if (property === 'release') return release
      return Reflect.get(target, property, target)
    },
  })
}

const INT8 = 20
const DATE = 1082
const TIMESTAMPTZ = 1184

/** Counters are far below 2^53. Dates stay text, because a JavaScript Date always has a time zone. */
function getTypeParser(oid: number, format?: 'text' | 'binary'): (value: string) => unknown {
  if (format !== 'binary') {
    if (oid === INT8) return Number
    if (oid === DATE) return (text) => text
    if (oid === TIMESTAMPTZ) return (text) => toIso(pg.types.getTypeParser(TIMESTAMPTZ, 'text')(text))
  }
  return pg.types.getTypeParser(oid, 'text')
}

function toIso(value: unknown): string {
  return value instanceof Date ? value.toISOString() : String(value)
}

function afterUnref(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
