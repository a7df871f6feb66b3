/** A Postgres that hangs, or has no space left: executions go on ending, and their rows are there when it is well again. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { Accepted } from '@cofferdam/contract'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { auditRows, endingsOf, expectExactBooks, expectNothingHeld, fakeRequest } from './accounts.ts'

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

async function enqueue(tenantId: string, count: number): Promise<Accepted[]> {
  const accepted: Accepted[] = []
  for (let n = 0; n < count; n += 1)
    accepted.push(await fleet.client.enqueue(fakeRequest(tenantId, [{ print: `${n}` }])))
  return accepted
}

/** The postmaster and every process of it. */
async function postgresPids(): Promise<number[]> {
  const { postgres } = fleet.pids()
  const { stdout } = await promisify(execFile)('pgrep', ['-P', String(postgres)])
  return [
    postgres,
    ...stdout
      .split('\n')
      .filter((line) => line !== '')
      .map(Number),
  ]
}

it('ends executions while Postgres hangs', async () => {
  await fleet.createTenant('hangs', GENEROUS)
  const first = await enqueue('hangs', 1)
  await endingsOf(fleet, first, 30_000)
  const frozen = await postgresPids()
  for (const pid of frozen) process.kill(pid, 'SIGSTOP')
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
}, 150_000)

it('ends executions while Postgres has no space left', async () => {
  await fleet.createTenant('full', GENEROUS)
  const first = await enqueue('full', 1)
  await endingsOf(fleet, first, 30_000)
  const client = new pg.Client(fleet.databaseUrl)
  await client.connect()
  // What Postgres answers then: 53100 from every insert.
  await client.query(`
    create function no_space() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
    create trigger no_space before insert on attempts execute function no_space()`)
  try {
    const during = await enqueue('full', 12)
    const results = await endingsOf(fleet, during, 60_000)
    expect(results.map((result) => result.ending)).toEqual(during.map(() => 'ok'))
    expect(await auditRows(fleet, 'full')).toHaveLength(1)
    await client.query('drop trigger no_space on attempts; drop function no_space')
    const all = [...first, ...during]
    await expectExactBooks(fleet, 'full', all, await endingsOf(fleet, all, 30_000))
    await expectNothingHeld(fleet)
  } finally {
    await client.end()
  }
}, 150_000)
