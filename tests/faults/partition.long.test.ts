/**
 * Workers on three hosts. Executions spread over them. When a host is cut off, the others end its executions,
 * and late writes of its worker have no effect.
 */
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Accepted } from '@cofferdam/contract'
import { connectRedis, createProducer, type QueueStats } from '@cofferdam/queue'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'
import { auditRows, chargedToday, endingsOf, expectExactBooks, fakeRequest } from './accounts.ts'
import { createNetHosts, type NetHosts } from './net-hosts.ts'

needs('hosts').describe('three hosts', () => {
  let fleet: Fleet
  let net: NetHosts
  let workers: FleetWorker[]
  let stats: () => Promise<QueueStats>
  const owned = new AsyncDisposableStack()

  beforeAll(async () => {
    fleet = owned.use(await startFleet())
    net = await createNetHosts(3)
    // Ends the hosts after the workers, which run on them.
    owned.defer(() => fleet.stopWorkers().then(() => net[Symbol.asyncDispose]()))
    const redis = await net.offer(new URL(fleet.redisUrl).pathname)
    const { user, database, socket } = partsOf(fleet.databaseUrl)
    const postgres = await net.offer(socket)
    const env = {
      COFFERDAM_BACKENDS: 'fake,none',
      COFFERDAM_SLOTS: '4',
      COFFERDAM_DRAIN_MS: '5000',
      REDIS_URL: `redis://${redis}`,
      DATABASE_URL: `postgres://${user}@${postgres}/${database}`,
    }
    workers = []
    for (const { within } of net.hosts) workers.push(await fleet.startWorker(env, undefined, within))
    const connections = [
      connectRedis(fleet.redisUrl, 'producer'),
      connectRedis(fleet.redisUrl, 'subscriber'),
    ] as const
    owned.defer(() => connections.forEach((connection) => connection.disconnect()))
    const producer = owned.use(createProducer({ redis: connections[0], subscriber: connections[1] }))
    stats = () => producer.stats()
    await fleet.createTenant('hosts', {
      policy: { min_isolation: 'none' },
      caps: { tenant_daily: 100_000, agent_hourly: 100_000, concurrency: 64 },
    })
  })
  afterAll(() => owned.disposeAsync())

  it('spread executions over all hosts', async () => {
    const accepted = await Promise.all(
      Array.from({ length: 48 }, (_, i) =>
        fleet.client.enqueue(fakeRequest('hosts', [{ sleep_ms: 1500 }], `agent-${i % 4}`)),
      ),
    )
    const seen = new Set<string>()
    await expect
      .poll(
        async () => {
          for (const { worker_id, running } of (await stats()).workers) if (running > 0) seen.add(worker_id)
          return seen.size
        },
        { timeout: 30_000, interval: 100 },
      )
      .toBe(3)
    const results = await endingsOf(fleet, accepted, 60_000)
    expect(results.every(({ ok }) => ok)).toBe(true)
  })

  it('end the executions of a cut-off worker once, and ignore its late writes', async () => {
    const accepted: Accepted[] = []
    const before = (await auditRows(fleet, 'hosts')).length
    // Twelve slots, four per host. Half of the programs end in the time in which a cut-off worker loses its
    // locks (9 s) or soon after, the other half later.
    const limits = { soft_timeout_ms: 150_000, hard_timeout_ms: 160_000 }
    for (let i = 0; i < 12; i++) {
      const steps = [{ print: `${i}` }, { sleep_ms: i % 2 === 0 ? 14_000 : 21_000 }]
      accepted.push(await fleet.client.enqueue({ ...fakeRequest('hosts', steps), limits }))
    }
    for (const { execution_id } of accepted)
      for await (const { event } of fleet.client.stream(execution_id)) if (event.type === 'started') break

    net.hosts[0]?.cut()
    const results = await endingsOf(fleet, accepted, 120_000)
    const lost = results.filter(({ ending }) => ending !== 'ok')
    // Only the four executions of the first host are lost.
    expect(lost.map(({ ending, attempt }) => [ending, attempt])).toEqual(Array(4).fill(['worker_lost', 1]))

    net.hosts[0]?.heal()
    // The worker reconnects by itself, sends heartbeats again, and learns that it owns nothing.
    await expect
      .poll(async () => (await stats()).workers.filter(({ last_seen_ms }) => last_seen_ms < 3000).length, {
        timeout: 90_000,
        interval: 500,
      })
      .toBe(3)
    await expect
      .poll(async () => (await stats()).workers.reduce((sum, { running }) => sum + running, 0), {
        timeout: 60_000,
        interval: 500,
      })
      .toBe(0)
    expect(workers.every((worker) => worker.process.exitCode === null)).toBe(true)

    // Its late writes change nothing: endings, rows and counters stay the same.
    const again = await Promise.all(accepted.map(({ execution_id }) => fleet.client.get(execution_id)))
    expect(again.map((state) => state?.result?.ending)).toEqual(results.map(({ ending }) => ending))
    const rows = await auditRows(fleet, 'hosts')
    expect(rows.length - before).toBe(12)
    expect(rows.filter(({ ending }) => ending === 'worker_lost')).toHaveLength(4)
    const { tenant_daily: day } = await fleet.admission.usage('hosts')
    expect(day.used).toBe(chargedToday(rows, day.resets_at).length)
    expect(rows.every((row) => row.quota_charged)).toBe(true)

    // The worker also takes new executions again.
    const fresh = await Promise.all(
      Array.from({ length: 24 }, () => fleet.client.enqueue(fakeRequest('hosts', [{ sleep_ms: 500 }]))),
    )
    expect((await endingsOf(fleet, fresh, 60_000)).every(({ ok }) => ok)).toBe(true)
    await expectExactBooks(
      fleet,
      'hosts',
      [...Array(before).fill(fresh[0]), ...accepted, ...fresh] as Accepted[],
      results,
    )
  }, 400_000)

  it('stop a program on a cut-off host before another host runs it again', async () => {
    // Programs of backend `none` run as users of their own, who must be able to write here.
    const folder = await mkdtemp(path.join(tmpdir(), 'cofferdam-beats-'))
    owned.defer(() => rm(folder, { recursive: true }))
    await chmod(folder, 0o777)
    const source = `import os, time
with open(${JSON.stringify(folder)} + "/" + str(os.getpid()), "a", buffering=1) as file:
    while True:
        print(time.monotonic_ns(), file=file)
        time.sleep(0.02)`
    const { execution_id } = await fleet.client.enqueue({
      tenant_id: 'hosts',
      agent_id: 'a',
      backend: 'none',
      program: { type: 'script', language: 'python', source },
      limits: { soft_timeout_ms: 150_000, hard_timeout_ms: 160_000 },
      retry: { max_attempts: 2, on: ['worker_lost'] },
    })
    // Runs in the order in which they began, each with its first and its last sign of life.
    const runs = async (): Promise<{ pid: string; first: number; last: number }[]> => {
      const found = await Promise.all(
        (await readdir(folder)).map(async (pid) => {
          const beats = (await readFile(path.join(folder, pid), 'utf8')).split('\n').slice(0, -1)
          return { pid, first: Number(beats[0]), last: Number(beats.at(-1)) }
        }),
      )
      return found.filter(({ first }) => !Number.isNaN(first)).toSorted((a, b) => a.first - b.first)
    }
    await expect.poll(async () => (await runs()).length, { timeout: 30_000 }).toBe(1)
    const [first] = await runs()
    const host = net.hosts.find((one) => one.holds(Number(first?.pid)))
    expect(host).toBeDefined()
    host?.cut()
    await expect.poll(async () => (await runs()).length, { timeout: 60_000, interval: 200 }).toBe(2)
    await fleet.client.cancel(execution_id)
    expect((await fleet.client.wait(execution_id, { timeoutMs: 30_000 }))?.attempt).toBe(2)
    const [stopped, again] = await runs()
    console.info(`stopped ${((again?.first ?? 0) - (stopped?.last ?? 0)) / 1e6} ms before it ran again`)
    expect(stopped?.last).toBeLessThan(again?.first ?? 0)
    expect(existsSync(`/proc/${stopped?.pid}`)).toBe(false)
    host?.heal()
    await expect
      .poll(async () => (await stats()).workers.filter(({ last_seen_ms }) => last_seen_ms < 3000).length, {
        timeout: 90_000,
        interval: 500,
      })
      .toBe(3)
  }, 300_000)

  it('let a worker exit on request while it is cut off', async () => {
    const cutOff = workers[1]
    // All of these still run when their worker is cut off.
    const accepted = await Promise.all(
      Array.from({ length: 12 }, () => fleet.client.enqueue(fakeRequest('hosts', [{ sleep_ms: 15_000 }]))),
    )
    for (const { execution_id } of accepted)
      for await (const { event } of fleet.client.stream(execution_id)) if (event.type === 'started') break
    net.hosts[1]?.cut()
    // The drain takes 5 s here and 25 s by default. The chart gives the worker 65 s more than its drain, so
    // 90 s by default.
    const beganAt = performance.now()
    expect(await cutOff?.stop()).toBe(0)
    expect(performance.now() - beganAt).toBeLessThan(70_000)
    const results = await endingsOf(fleet, accepted, 120_000)
    expect(results.filter(({ ending }) => ending !== 'ok').map(({ ending }) => ending)).toEqual(
      Array(4).fill('worker_lost'),
    )
  }, 400_000)
})

/** Splits a `postgres://user@/database?host=DIR` URL, which not every URL parser accepts. */
function partsOf(databaseUrl: string): { user: string; database: string; socket: string } {
  const [, user = '', database = '', directory = ''] =
    /^postgres:\/\/([^@]*)@\/([^?]*)\?host=(.*)$/.exec(databaseUrl) ?? []
  return { user, database, socket: `${decodeURIComponent(directory)}/.s.PGSQL.5432` }
}
