/**
 * How long each migration keeps others from writing. A database at migration FILLED_AT is filled with
 * `--rows` attempts. Then each later file is applied as `cofferdam setup` does. Meanwhile one connection
 * inserts attempts and another one inserts policy changes, without a pause. The figures are the longest
 * insert, and the longest wait of an insert for a lock.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { migrateUpTo } from '@cofferdam/store/testing'
import { migrationFiles } from '../libs/store/src/migration-files.ts'
import { fillTables, insertOne, withClient } from './fill-audit.ts'
import type { BenchContext, Measured } from './report.ts'

const DEFAULT_ROWS = 30_000
/** The database is filled at this migration: all filled tables and `ensure_partition` exist then. */
const FILLED_AT = 5
/** How long inserts are measured without a migration, for comparison. */
const QUIET_MS = 3000
/** How often the server is asked who waits for a lock. */
const LOOK_MS = 5

export async function measureMigrations(context: BenchContext): Promise<Record<string, Measured>> {
  const rows = context.rows ?? DEFAULT_ROWS
  const { databaseUrl } = context.fleet
  const name = `migrations_${randomBytes(4).toString('hex')}`
  const url = databaseUrl.replace(/\/[^/?]+(\?|$)/, `/${name}$1`)
  await withClient(databaseUrl, (client) => client.query(`create database ${name}`))
  try {
    await migrateUpTo(url, FILLED_AT)
    const startedMs = performance.now()
    await fillTables(url, rows, (line) => context.note(line))
    const found: Record<string, Measured> = {
      'migrations.rows': { unit: 'count', value: rows },
      'migrations.fill': ms(performance.now() - startedMs),
    }
    await withClient(url, async (client) => {
      await client.query(
        `select ensure_partition((now() at time zone 'UTC')::date + 30 + n) from generate_series(0, 1) n`,
      )
    })
    found['migrations.none'] = ms((await watchInserts(url, () => pause(QUIET_MS))).insert)
    for (const { number, name: file } of migrationFiles().filter(({ number: one }) => one > FILLED_AT)) {
      const beganMs = performance.now()
      const { insert, lock } = await watchInserts(url, () => migrateUpTo(url, number))
      const key = `migrations.${file.slice(0, 4)}`
      found[key] = ms(insert)
      found[`${key}.locked`] = ms(lock)
      found[`${key}.took`] = ms(performance.now() - beganMs)
      context.note(`${file}: longest insert ${insert.toFixed(0)} ms, of it for a lock ${lock.toFixed(0)} ms`)
    }
    return found
  } finally {
    await withClient(databaseUrl, (client) => client.query(`drop database ${name} with (force)`))
  }
}

const ms = (value: number): Measured => ({ unit: 'ms', value: Math.round(value * 10) / 10 })

interface Waits {
  /** Milliseconds of the longest insert that overlaps the work. */
  insert: number
  /** Milliseconds of the longest lock wait of an insert, sampled from the server every few milliseconds. */
  lock: number
}

const EVENT = `
  insert into tenant_policy_events (tenant_id, actor, event_type, source)
  values ('tenant-1', 'bench', 'caps', 'sql')`
const LOCK_WAIT = `
  select coalesce(max(extract(epoch from clock_timestamp() - waitstart)), 0)::float8 * 1000 as waited
  from pg_locks where not granted and pid = any ($1::int[])`

/** Inserts from two connections, as fast as they can, until the work is done. */
async function watchInserts(url: string, work: () => Promise<unknown>): Promise<Waits> {
  let over = false
  const repeat = async (once: () => Promise<unknown>): Promise<number> => {
    let longest = 0
    while (!over) {
      const beganMs = performance.now()
      await once()
      longest = Math.max(longest, performance.now() - beganMs)
    }
    return longest
  }
  return await withClient(url, (attempts) =>
    withClient(url, (events) =>
      withClient(url, async (looker) => {
        const { rows } = await attempts.query<{ pid: number }>('select pg_backend_pid() as pid')
        const other = await events.query<{ pid: number }>('select pg_backend_pid() as pid')
        const pids = [...rows, ...other.rows].map(({ pid }) => pid)
        let lock = 0
        const waits = Promise.all([
          repeat(() => insertOne(attempts)),
          repeat(() => events.query(EVENT)),
          repeat(async () => {
            const [found] = (await looker.query<{ waited: number }>(LOCK_WAIT, [pids])).rows
            lock = Math.max(lock, found?.waited ?? 0)
            await pause(LOOK_MS)
          }),
        ])
        try {
          await Promise.race([work(), waits])
        } finally {
          over = true
        }
        const [attempt, event] = await waits
        return { insert: Math.max(attempt, event), lock }
      }),
    ),
  )
}
