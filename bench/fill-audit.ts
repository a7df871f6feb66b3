/** Fills the tables that get a row per attempt or policy change. It uses the schema as of migration 0005. */
import pg from 'pg'

/** Each expiry day has its own partition. The default retention is 30 days. */
const DAYS = 30
/** Rows that one statement inserts. */
const CHUNK = 50_000

/** Subquery that generates attempts, one row each, with a number `n`, a start time `at` and an ID `id`. */
const ATTEMPT = `
  select n, id, 1 as attempt, 'tenant-' || n % 50 as tenant_id, 'agent-' || n % 500 as agent_id, at,
    (at at time zone 'UTC')::date + 30 as expires_on
  from (
    select n, timestamptz 'epoch' + ms * interval '1 ms' as at,
      (lpad(to_hex(ms), 12, '0') || '7' || substr(digest, 1, 3) || '8' || substr(digest, 4, 15))::uuid as id
    from (
      select n, md5($1::text || n) as digest, $2::bigint + (n * $3::float8)::bigint as ms
      from generate_series($4::int, $5::int) n
    ) numbers
  ) ids`

const REGISTER = 'insert into attempts (execution_id, attempt, expires_on)'
const INVOCATION = `
  insert into sandbox_invocations (execution_id, attempt, tenant_id, agent_id, environment_id,
    invocation_source, backend, started_at, finished_at, duration_ms, queue_ms, exit_status, ending,
    quota_charged, charged_at, stdout_bytes, stderr_bytes, stdout_truncated, stderr_truncated,
    redaction_count, outbound_hosts, executed_code_hash, created_at, expires_on)`
const INVOCATION_VALUES = `id, attempt, tenant_id, agent_id, 'default-public', 'queue', 'process', at,
    at + interval '50 ms', 50, 5, 'ok', 'ok', true, at, 12, 0, false, false, 0, '[]'::jsonb,
    repeat('0123456789abcdef', 4), at, expires_on`
const RESULT = `
  insert into results (execution_id, attempt, tenant_id, expires_on, result, artifacts)`

/**
 * Inserts attempts into one of the three tables. `insertOnce` fills all in one transaction, as the store
 * does. The parameters are those of ATTEMPT.
 */
const insertAttempts = (table: string, values: string): string =>
  `${table} select ${values} from (${ATTEMPT}) a`
const STATEMENTS = [
  insertAttempts(REGISTER, 'id, attempt, expires_on'),
  insertAttempts(INVOCATION, INVOCATION_VALUES),
  insertAttempts(
    RESULT,
    `id, attempt, tenant_id, expires_on, '{"ok": true, "stdout": "hello"}'::json, '[]'::json`,
  ),
]

const DAY_MS = 86_400_000

/** Inserts `rows` attempts, spread over the last 30 days, and a hundredth as many changes of policies. */
export async function fillTables(url: string, rows: number, note: (line: string) => void): Promise<void> {
  const midnight = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const perDay = Math.ceil(rows / DAYS)
  const days = Array.from({ length: DAYS }, (_, n) => midnight - (n + 1) * DAY_MS)
  let done = 0
  // Two connections, so that one computes while the other one writes.
  await Promise.all([fillSome(), fillSome()])
  await withClient(url, async (client) => {
    await client.query(
      `insert into tenant_policy_events (tenant_id, actor, event_type, source)
       select 'tenant-' || n % 50, 'bench', 'caps', 'sql' from generate_series(1, $1::int) n`,
      [Math.ceil(rows / 100)],
    )
    await client.query('analyze')
  })

  async function fillSome(): Promise<void> {
    await withClient(url, async (client) => {
      for (let day = days.pop(); day !== undefined; day = days.pop()) {
        await client.query(
          `select ensure_partition((to_timestamp($1 / 1000.0) at time zone 'UTC')::date + 30)`,
          [day],
        )
        for (let from = 0; from < perDay; from += CHUNK) {
          const last = Math.min(perDay, from + CHUNK) - 1
          await insertOnce(client, [String(day), day, (DAY_MS - 1000) / perDay, from, last])
        }
        done += perDay
        note(`filled ${done} of ${rows} rows`)
      }
    })
  }
}

/** Inserts one attempt of today. Its partition must exist. */
export async function insertOne(client: pg.Client): Promise<void> {
  await insertOnce(client, [String(Math.random()), Date.now(), 0, 0, 0])
}

async function insertOnce(client: pg.Client, parameters: readonly (string | number)[]): Promise<void> {
  await client.query('begin')
  for (const statement of STATEMENTS) await client.query(statement, [...parameters])
  await client.query('commit')
}

/** Connects for the time of `work`. Times are in UTC. */
export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(`set timezone = 'UTC'`)
    return await work(client)
  } finally {
    await client.end()
  }
}
