/**
 * How long each migration keeps others from writing. A database of the state before is filled with `--rows`
 * attempts. Then each later file is applied as `cofferdam setup` does, while one connection records attempts
 * and another one changes of policies, without a pause. The longest of these inserts is the figure.
 */
import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { migrateUpTo } from '@cofferdam/store/testing'
import { migrationFiles } from '../libs/store/src/migration-files.ts'
import { fillTables, insertOne, withClient } from './fill-audit.ts'
import type { BenchContext, Measured } from './report.ts'

const DEFAULT_ROWS = 30_000
/** The newest migration of the database that is filled: it has the tables and makes partitions. */
const FILLED_AT = 5
/** How long inserts are measured without a migration, for comparison. */
const QUIET_MS = 3000

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
    found['migrations.none'] = ms(
      await longestInsert(url, () => new Promise((resolve) => setTimeout(resolve, QUIET_MS))),
    )
    for (const { number, name: file } of migrationFiles().filter(({ number: one }) => one > FILLED_AT)) {
      const beganMs = performance.now()
      const longest = await longestInsert(url, () => migrateUpTo(url, number))
      const tookMs = performance.now() - beganMs
      const key = `migrations.${file.slice(0, 4)}`
      found[key] = ms(longest)
      found[`${key}.took`] = ms(tookMs)
      context.note(`${file}: ${tookMs.toFixed(0)} ms, longest insert ${longest.toFixed(0)} ms`)
    }
    return found
  } finally {
    await withClient(databaseUrl, (client) => client.query(`drop database ${name} with (force)`))
  }
}

const ms = (value: number): Measured => ({ unit: 'ms', value: Math.round(value * 10) / 10 })

/** Milliseconds of the longest insert that overlaps `work`. */
async function longestInsert(url: string, work: () => Promise<unknown>): Promise<number> {
  let over = false
  const watch = (insert: (client: pg.Client) => Promise<unknown>, ready: () => void): Promise<number> =>
    withClient(url, async (client) => {
      let longest = 0
      await insert(client)
      ready()
      while (!over) {
        const beganMs = performance.now()
        await insert(client)
        longest = Math.max(longest, performance.now() - beganMs)
      }
      return longest
    })
  const [attempts, events] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const longest = Promise.all([
    watch(insertOne, attempts.resolve),
    watch(
      (client) =>
        client.query(
          `insert into tenant_policy_events (tenant_id, actor, event_type, source)
           values ('tenant-1', 'bench', 'caps', 'sql')`,
        ),
      events.resolve,
    ),
  ])
  try {
    await Promise.race([Promise.all([attempts.promise, events.promise]), longest])
    await work()
  } finally {
    over = true
  }
  return Math.max(...(await longest))
}
