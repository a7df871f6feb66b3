import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres, type RunningServer } from '@cofferdam/embedded'
import { DAY_MS, untilWindowLasts } from '@cofferdam/embedded/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import pg from 'pg'
import { createStore, migrate, type Store } from '../src/index.ts'
import { PATIENT_TIMEOUTS } from '../src/testing.ts'
import { sampleAttempt } from './sample-attempt.ts'

/** More than four times the store's longest wait, for slow machines: statementMs + connectMs + SILENCE_MS. */
const FAST_MS = 16_000
let dir: string
let server: RunningServer
let store: Store

const open = (timeouts = {}): Promise<Store> =>
  createStore({ databaseUrl: server.url, blobDir: join(dir, 'blobs'), timeouts })
const start = (): Promise<RunningServer> => startPostgres({ dataDir: join(dir, 'pg'), durable: false })

beforeEach(async () => {
  // At least a minute of the UTC day is left, so that the daily counters do not start anew during a test.
  await untilWindowLasts(DAY_MS, 60_000)
  dir = mkdtempSync(join(tmpdir(), 'cofferdam-test-'))
  // Without user namespaces, root's Postgres runs as another user, who must be able to enter.
  chmodSync(dir, 0o711)
  server = await start()
  await migrate(server.url)
  store = await open(PATIENT_TIMEOUTS)
})
afterEach(async () => {
  await store[Symbol.asyncDispose]()
  await server.stop()
  rmSync(dir, { recursive: true, force: true })
})

async function outcomesOf(
  n: number,
): Promise<{ stored: number; away: number; other: unknown[]; tookMs: number }> {
  const began = performance.now()
  const outcomes = await Promise.allSettled(Array.from({ length: n }, () => store.record(sampleAttempt())))
  const failed = outcomes.flatMap((outcome) =>
    outcome.status === 'rejected' ? [outcome.reason as unknown] : [],
  )
  const away = failed.filter(
    (error) => error instanceof Error && 'code' in error && error.code === 'store_unavailable',
  )
  return {
    stored: n - failed.length,
    away: away.length,
    other: failed.filter((error) => !away.includes(error as Error)),
    tookMs: performance.now() - began,
  }
}

describe('while Postgres is away', () => {
  it('fails every call with store_unavailable at once, and works again after the restart', async () => {
    await store.record(sampleAttempt())
    await server.stop()
    const down = await outcomesOf(250)
    expect(down).toMatchObject({ stored: 0, away: 250, other: [] })
    expect(down.tookMs).toBeLessThan(FAST_MS)
    await expect(store.check()).rejects.toMatchObject({ code: 'store_unavailable' })
    await expect(store.listAudit({ tenantId: 'acme', limit: 1 })).rejects.toMatchObject({
      code: 'store_unavailable',
    })
    await expect(store.tenants.get('acme')).rejects.toMatchObject({ code: 'store_unavailable' })
    await expect(store.keys.verify(`cfd_${'0'.repeat(40)}`)).rejects.toMatchObject({
      code: 'store_unavailable',
    })
    await expect(store.retention.dropExpired(Date.now())).rejects.toMatchObject({ code: 'store_unavailable' })
    server = await start()
    expect(await outcomesOf(250)).toMatchObject({ stored: 250, away: 0, other: [] })
  })

  it('ends every record in flight as stored or store_unavailable when the server stops', async () => {
    const load = outcomesOf(1900)
    await server.stop()
    const { stored, away, other } = await load
    expect(other).toEqual([])
    expect(stored + away).toBe(1900)
    server = await start()
    // A record that was reported as stored is stored. Others may be.
    const { day } = await store.chargedCounts('acme', Date.now())
    expect(day.count).toBeGreaterThanOrEqual(stored)
  })

  it('gives up on a hanging server within the timeouts, and does not reuse its connections', async () => {
    await store[Symbol.asyncDispose]()
    store = await open()
    await Promise.all([store.check(), store.record(sampleAttempt())])
    process.kill(server.pid, 'SIGSTOP')
    const backends = await freeze(server.pid)
    try {
      const hung = await outcomesOf(150)
      expect(hung).toMatchObject({ stored: 0, away: 150, other: [] })
      expect(hung.tookMs).toBeLessThan(FAST_MS)
      await expect(store.check()).rejects.toMatchObject({ code: 'store_unavailable' })
    } finally {
      for (const pid of [...backends, server.pid]) process.kill(pid, 'SIGCONT')
    }
    await isServing(server.url)
    expect(await outcomesOf(150)).toMatchObject({ stored: 150, away: 0, other: [] })
    await store.check()
  })

  it('can be opened, and works once the server is up', async () => {
    await server.stop()
    await using early = await open(PATIENT_TIMEOUTS)
    await expect(early.check()).rejects.toMatchObject({ code: 'store_unavailable' })
    server = await start()
    await early.check()
  })

  it('refuses new records at its bound instead of growing', async () => {
    await server.stop()
    const { away, other } = await outcomesOf(5000)
    expect(other).toEqual([])
    expect(away).toBe(5000)
  })
})

/** Waits until the server answers a new connection. */
async function isServing(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query('select 1')
  await client.end()
}

/** Also stops the server's children, because each connection has its own process. */
async function freeze(pid: number): Promise<number[]> {
  const { readFile } = await import('node:fs/promises')
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
  const children = text.trim().split(' ').map(Number)
  for (const child of children) process.kill(child, 'SIGSTOP')
  return children
}
