/** Schedules and callbacks on a Redis Cluster. BullMQ's job schedulers and our own lists share one slot. */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { routineInputSchema } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import { startFleet } from '../fleet.ts'
import { fakeRequest } from './accounts.ts'
import { startRedisCluster } from './servers/redis-cluster.ts'

const withServers = needs('redis-server', 'setpriv')

withServers.it(
  'a routine fires by its schedule, and its results are posted',
  async () => {
    await using owned = new AsyncDisposableStack()
    const folder = mkdtempSync(path.join(tmpdir(), 'cofferdam-routines-'))
    owned.defer(() => rmSync(folder, { recursive: true, force: true }))
    const config = path.join(folder, 'cofferdam.config.yaml')
    writeFileSync(config, "callbacks: { private_allow: ['127.0.0.1/32'] }\n")
    const posted: string[] = []
    const receiver = createServer((request, response) => {
      posted.push(String(request.headers['webhook-id']))
      request.resume()
      response.writeHead(204).end()
    })
    receiver.listen(0, '127.0.0.1')
    await once(receiver, 'listening')
    owned.defer(async () => {
      receiver.closeAllConnections()
      receiver.close()
      await once(receiver, 'close')
    })
    const cluster = owned.use(await startRedisCluster())
    const fleet = owned.use(await startFleet({ redisUrl: cluster.url }))
    await fleet.createTenant('acme', { policy: { min_isolation: 'none' } })
    await fleet.store.callbackSecrets.rotate('acme')
    const routine = await fleet.store.routines.create(
      routineInputSchema.parse({
        name: 'every second',
        request: fakeRequest('acme', [{ print: 'tick' }], 'agent-1'),
        schedule: { every_ms: 1000 },
        callback_url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`,
      }),
      'test',
    )
    await fleet.startWorker({ COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '4', COFFERDAM_CONFIG: config })
    await expect.poll(() => posted.length, { timeout: 60_000 }).toBeGreaterThan(2)
    // The callback can arrive before the transaction that records the run is visible.
    const told = [...posted]
    const runs = () => fleet.store.routines.runs(null, routine.routine_id, 100)
    await expect
      .poll(async () => (await runs()).map((run) => run.execution_id), { timeout: 20_000 })
      .toEqual(expect.arrayContaining(told))
    expect(new Set(posted).size).toBe(posted.length)
  },
  240_000,
)
