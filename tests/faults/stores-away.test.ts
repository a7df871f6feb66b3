/** Postgres stops or hangs, or Redis restarts. Executions still end, and their rows are written later. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Accepted } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import pg from 'pg'
import { freePort } from '../../libs/embedded/src/free-port.ts'
import { startFleet, type Fleet } from '../fleet.ts'
import { endingsOf, expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet({ durable: true })
  await fleet.startWorker({ COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '8' })
})
afterAll(async () => fleet[Symbol.asyncDispose]())

const GENEROUS = {
  policy: { min_isolation: 'none' as const },
  caps: { tenant_daily: 100_000, agent_hourly: 100_000 },
}

async function enqueue(tenantId: string, count: number, sleepMs = 0): Promise<Accepted[]> {
  const accepted: Accepted[] = []
  for (let n = 0; n < count; n += 1)
    accepted.push(
      await fleet.client.enqueue(fakeRequest(tenantId, [{ sleep_ms: sleepMs }, { print: `${n}` }])),
    )
  return accepted
}

it('executions end while Postgres is away, and their audit rows are written when it is back', async () => {
  await fleet.createTenant('no-postgres', GENEROUS)
  await fleet.createTenant('not-seen-yet', GENEROUS)
  const warm = await enqueue('no-postgres', 1)
  await endingsOf(fleet, warm, 30_000)

  await fleet.stopPostgres()
  const during = await enqueue('no-postgres', 40)
  const results = await endingsOf(fleet, during, 120_000)
  expect(results.map((r) => r.ending)).toEqual(results.map(() => 'ok'))
  // The policy of this tenant cannot be read, so its execution waits.
  const unjudged = await enqueue('not-seen-yet', 1)
  for await (const { event } of fleet.client.stream(unjudged[0]?.execution_id ?? 'exe_'))
    if (event.type === 'notice' && event.message.includes('policy check')) break

  await fleet.startPostgres()
  const all = [...warm, ...during]
  await expectExactBooks(fleet, 'no-postgres', all, await endingsOf(fleet, all, 30_000))
  const judged = await endingsOf(fleet, unjudged, 60_000)
  expect(judged.map((result) => [result.ending, result.attempt])).toEqual([['ok', 1]])
  await expectExactBooks(fleet, 'not-seen-yet', unjudged, judged)
}, 300_000)

needs('process').it(
  'no sandbox waits for a worker that nobody has heard of yet',
  async () => {
    await fleet.createTenant('late-worker')
    const backend = { COFFERDAM_BACKENDS: 'process' }
    const sweeper = await fleet.startWorker({ ...backend, COFFERDAM_SWEEP_MS: '100' })
    await fleet.stopPostgres()
    const late = await fleet.startWorker(backend)
    expect(late.log()).toContain('takes nothing until its store is good')
    await fleet.startPostgres()
    expect(await sweeper.stop()).toBe(0)

    const { execution_id: id } = await fleet.client.enqueue({
      tenant_id: 'late-worker',
      agent_id: 'bot',
      backend: 'process',
      program: { type: 'script', language: 'python', source: 'print(1)' },
    })
    expect(await fleet.client.wait(id, { timeoutMs: 60_000 })).toMatchObject({ ok: true, stdout: '1\n' })
    expect(await late.stop()).toBe(0)
    expect(sweeper.log()).not.toContain('destroyed what a dead worker left')
  },
  120_000,
)

/** Sends SIGSTOP to the postmaster and all its processes. Resolves with their process IDs. */
async function freezePostgres(): Promise<number[]> {
  const { postgres } = fleet.pids()
  // Stop the postmaster first, so that it starts no process meanwhile and reaps none.
  process.kill(postgres, 'SIGSTOP')
  const { stdout } = await promisify(execFile)('pgrep', ['-P', String(postgres)])
  const children = stdout.split('\n').filter(Boolean).map(Number)
  for (const pid of children) process.kill(pid, 'SIGSTOP')
  return [postgres, ...children]
}

it('executions end while Postgres hangs', async () => {
  await fleet.createTenant('hangs', GENEROUS)
  const first = await enqueue('hangs', 1)
  await endingsOf(fleet, first, 30_000)
  const frozen = await freezePostgres()
  let during: Accepted[] = []
  try {
    await expect.poll(() => readFile(`/proc/${frozen[0]}/stat`, 'utf8'), { timeout: 20_000 }).toMatch(/\) T /)
    during = await enqueue('hangs', 12)
    const results = await endingsOf(fleet, during, 60_000)
    expect(results.map((result) => result.ending)).toEqual(during.map(() => 'ok'))
  } finally {
    for (const pid of frozen) process.kill(pid, 'SIGCONT')
  }
  const all = [...first, ...during]
  await expectExactBooks(fleet, 'hangs', all, await endingsOf(fleet, all, 30_000))
  await expectNothingHeld(fleet)
})

it('a worker whose database login is refused gets no executions until the login works', async () => {
  await fleet.createTenant('refused', GENEROUS)
  const owner = new pg.Client({ connectionString: fleet.databaseUrl })
  await owner.connect()
  const port = await freePort()
  try {
    await owner.query('create role stranger login')
    const stranger = await fleet.startWorker({
      COFFERDAM_BACKENDS: 'fake',
      COFFERDAM_SLOTS: '8',
      DATABASE_URL: fleet.databaseUrl.replace(/postgres@/, 'stranger@'),
      COFFERDAM_METRICS_PORT: String(port),
    })
    const ready = async () => {
      const reply = await fetch(`http://127.0.0.1:${port}/readyz`)
      return `${reply.status} ${await reply.text()}`
    }
    expect(await ready()).toMatch(/^503 The store is not set up .*cofferdam_app/)
    expect(stranger.log()).toContain('takes nothing until its store is good')
    const accepted = await enqueue('refused', 20)
    const results = await endingsOf(fleet, accepted, 60_000)
    expect(results.map((result) => result.ending)).toEqual(accepted.map(() => 'ok'))
    await expectExactBooks(fleet, 'refused', accepted, results)

    await owner.query('grant cofferdam_app, cofferdam_all_tenants to stranger')
    await expect.poll(ready, { timeout: 30_000 }).toBe('200 ready\n')
    expect(await stranger.stop()).toBe(0)
  } finally {
    await owner.end()
  }
})

it('a restart of Redis under load loses nothing', async () => {
  await fleet.createTenant('redis-restart', GENEROUS)
  const accepted = await enqueue('redis-restart', 60, 100)
  await fleet.restartRedis()
  const results = await endingsOf(fleet, accepted, 120_000)
  expect(results.every((r) => r.ending === 'ok')).toBe(true)
  await expectExactBooks(fleet, 'redis-restart', accepted, results)
}, 300_000)
