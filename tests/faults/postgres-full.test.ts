/**
 * The disk of Postgres is really full. First its tables cannot grow, and every insert fails. Then its log
 * cannot grow, and Postgres exits with all connections. Executions still end. Once there is space again and
 * Postgres was restarted, every row is written, once.
 */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Accepted } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import pg from 'pg'
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { auditRows, endingsOf, expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'
import { moveToSmallDisk } from './servers/small-disk.ts'

/** A new database and two segments of its log (16 MiB each) take half of the disk. */
const DISK_MIB = 160
/** More log segments than the disk has space for. */
const SEGMENTS = DISK_MIB / 16

/** Text that compresses badly, so that a row does not fit into the page that the tables have begun. */
const text = (n: number): string =>
  Array.from({ length: 500 }, (_, i) => ((i + 1) * (n + 1) * 2_654_435_761).toString(36)).join('')

async function enqueue(fleet: Fleet, count: number, sleepMs = 0): Promise<Accepted[]> {
  const accepted: Accepted[] = []
  for (let n = 0; n < count; n += 1)
    accepted.push(
      await fleet.client.enqueue(fakeRequest('full', [{ sleep_ms: sleepMs }, { print: text(n) }])),
    )
  return accepted
}

async function inPostgres<T>(fleet: Fleet, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(fleet.databaseUrl)
  // A server that exits tells its connections. The next query reports the failure.
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await use(client)
  } finally {
    await client.end().catch(() => undefined)
  }
}

const waitingRows = async (fleet: Fleet): Promise<number> => {
  const redis = connectRedis(fleet.redisUrl, 'worker')
  try {
    return await redis.xlen(KEYS.outbox)
  } finally {
    redis.disconnect()
  }
}

/** Begins one log segment after the other until the server cannot make the next one. */
const useUpItsLog = (fleet: Fleet): Promise<void> =>
  inPostgres(fleet, async (client) => {
    for (let n = 0; n < SEGMENTS; n += 1) {
      await client.query(`select pg_logical_emit_message(true, 'test', 'something to write')`)
      await client.query('select pg_switch_wal()')
    }
  })

const isThere = (pid: number): boolean => existsSync(`/proc/${pid}`)

const startedAt = (fleet: Fleet): Promise<unknown> =>
  inPostgres(fleet, async (client) => (await client.query('select pg_postmaster_start_time() as at')).rows)

needs('mounts').it(
  'every row is written once after the disk of Postgres was full',
  async () => {
    await using fleet = await startFleet({ durable: true })
    const directory = path.join(fleet.dataDir, 'postgres')
    // Some 20 s after a start, autovacuum analyses the catalogs and removes files. That frees space for rows,
    // and a new connection that cannot write the files again is refused.
    await inPostgres(fleet, (client) => client.query('alter system set autovacuum = off'))
    await fleet.stopPostgres()
    {
      await using disk = await moveToSmallDisk(directory, DISK_MIB)
      await fleet.startPostgres()
      await fleet.createTenant('full', {
        policy: { min_isolation: 'none' },
        caps: { tenant_daily: 1000, agent_hourly: 1000 },
      })
      await fleet.startWorker({ COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '8' })
      const before = await enqueue(fleet, 1)
      await endingsOf(fleet, before, 30_000)

      // Begin a fresh log segment, so that the remaining log records fit into it.
      await inPostgres(fleet, (client) => client.query('checkpoint; select pg_switch_wal(); checkpoint'))
      const lives = await startedAt(fleet)
      await disk.fill()
      const noTables = await enqueue(fleet, 24)
      const results = await endingsOf(fleet, noTables, 60_000)
      expect(results.map(({ ending }) => ending)).toEqual(noTables.map(() => 'ok'))
      expect(await waitingRows(fleet)).toBeGreaterThan(0)
      expect((await auditRows(fleet, 'full')).length).toBeLessThan(before.length + noTables.length)
      expect(await startedAt(fleet)).toEqual(lives)

      const { postgres } = fleet.pids()
      const noLog = await enqueue(fleet, 24, 100)
      // Postgres panics, closes all connections and recovers, perhaps without needing space. Repeat until it
      // cannot recover either. If it always recovers, kill it.
      for (let panics = 0; panics < 10 && isThere(postgres); panics += 1)
        await useUpItsLog(fleet).catch(() => undefined)
      if (isThere(postgres)) process.kill(postgres, 'SIGKILL')
      await expect.poll(() => isThere(postgres), { timeout: 30_000 }).toBe(false)
      const dead = await enqueue(fleet, 4)
      const ended = await endingsOf(fleet, [...noLog, ...dead], 60_000)
      expect(ended.map(({ ending }) => ending)).toEqual(ended.map(() => 'ok'))
      const all = [...before, ...noTables, ...noLog, ...dead]

      await disk.free()
      await fleet.stopPostgres()
      await fleet.startPostgres()
      await expectExactBooks(fleet, 'full', all, await endingsOf(fleet, all, 60_000))
      await expectNothingHeld(fleet)
      await fleet.stopWorkers()
      await fleet.stopPostgres()
    }
    expect(await readFile('/proc/mounts', 'utf8')).not.toContain(directory)
  },
  240_000,
)
