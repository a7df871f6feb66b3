import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Accepted, ExecutionId, WorkerId } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { ConsumerDeps, Producer, Taken } from '../src/index.ts'
import { endWith, gate, recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
const children: ChildProcess[] = []
beforeAll(async () => {
  bench = await startBench()
})
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
  await bench.clear()
})
afterAll(() => bench[Symbol.asyncDispose]())

const inSession = (key: string, tenant = 'acme', input: Parameters<typeof requestOf>[0] = {}) =>
  requestOf({ tenant_id: tenant, session: { key }, ...input })

const WEIGHT_1 = { weight: 1, concurrency: null, max_queued: null }

interface Ran {
  worker: string
  id: ExecutionId
  key: string
}

/** Starts consumers that note what they ran, each under its own name. */
function startConsumers(
  names: string[],
  ran: Ran[],
  end: (taken: Taken) => Promise<void> = endWith('ok'),
  deps: Partial<ConsumerDeps> = {},
) {
  return names.map((name) =>
    bench.consumer({
      workerId: `wrk_0123456789ab_${name}` as WorkerId,
      async process(taken) {
        ran.push({ worker: name, id: taken.executionId, key: taken.request.session?.key ?? '' })
        await end(taken)
      },
      ...deps,
    }),
  )
}

/**
 * Starts a worker process with this lock time. By default the time of the product, because a worker that
 * stands still for longer rightly loses its sessions.
 */
async function startWorker(name: string, lockMs = 9000): Promise<ChildProcess> {
  const args = [bench.url, `wrk_0123456789ab_${name}`, String(lockMs)]
  const child = fork(new URL('./session-worker.ts', import.meta.url), args, { execArgv: [] })
  children.push(child)
  await once(child, 'message', { signal: AbortSignal.timeout(30_000) })
  return child
}

async function allEnd(producer: Producer, accepted: readonly Accepted[], timeoutMs = 60_000): Promise<void> {
  const results = await Promise.all(accepted.map((a) => producer.wait(a.execution_id, { timeoutMs })))
  expect(results.filter((result) => result?.ok !== true)).toEqual([])
}

/** Checks that the scheduler's counters and sets are empty again. */
async function expectNothingLeft(producer: Producer, tenants: string[]): Promise<void> {
  const { lanes } = await producer.stats()
  for (const lane of Object.values(lanes))
    expect([lane.queued, lane.delayed, lane.running, lane.oldest_age_ms]).toEqual([0, 0, 0, null])
  for (const tenant of tenants) {
    const state = await bench.redis.hgetall(`{cofferdam}:t:${tenant}`)
    for (const count of ['n', 'q:interactive', 'q:routine', 'd', 'h:interactive', 'h:routine'])
      expect([tenant, count, state[count] ?? '0']).toEqual([tenant, count, '0'])
  }
  for (const pattern of ['handed:*', 'sq:*', 'b:*', 'ring:*'])
    expect(await bench.redis.keys(`{cofferdam}:${pattern}`)).toEqual([])
  for (const key of await bench.redis.keys('{cofferdam}:s:*')) {
    expect(await bench.redis.hexists(key, 'f')).toBe(0)
    expect(await bench.redis.pttl(key)).toBeGreaterThan(0)
  }
}

describe('executions of one session', () => {
  it('all run in order, one at a time, on the worker of the first one, while others are idle', async () => {
    const producer = bench.producer()
    const ran: Ran[] = []
    let inside = 0
    let most = 0
    startConsumers(['a', 'b', 'c'], ran, async (taken) => {
      most = Math.max(most, (inside += 1))
      await new Promise((resolve) => setImmediate(resolve))
      inside -= 1
      await endWith('ok')(taken)
    })
    const accepted: Accepted[] = []
    for (let n = 0; n < 40; n += 1)
      // Neither priority nor agent changes the order of a session.
      accepted.push(await producer.put(inSession('one', 'acme', { priority: n % 10, agent_id: `a${n % 3}` })))
    await allEnd(producer, accepted)
    expect(ran.map(({ id }) => id)).toEqual(accepted.map((a) => a.execution_id))
    expect(new Set(ran.map(({ worker }) => worker)).size).toBe(1)
    expect(most).toBe(1)
    await expectNothingLeft(producer, ['acme'])
  })

  it('return to the same worker after a pause, and share no session with another tenant', async () => {
    const producer = bench.producer()
    const ran: Ran[] = []
    startConsumers(['a', 'b', 'c', 'd'], ran)
    for (let n = 0; n < 12; n += 1) {
      await allEnd(producer, [await producer.put(inSession('one'))])
      await allEnd(producer, [await producer.put(requestOf())])
    }
    const workers = ran.filter(({ key }) => key === 'one').map(({ worker }) => worker)
    expect(new Set(workers).size).toBe(1)
    await allEnd(producer, [await producer.put(inSession('one', 'globex'))])
    expect(await bench.redis.keys('{cofferdam}:s:*')).toHaveLength(2)
  })

  it('hold at most one slot, so that a busy session leaves the other slots free', async () => {
    const producer = bench.producer()
    const ran: Ran[] = []
    const release = gate()
    startConsumers(['a'], ran, async (taken) => {
      if (taken.request.session !== undefined) await release.opened
      await endWith('ok')(taken)
    })
    const busy = await Promise.all(Array.from({ length: 20 }, () => producer.put(inSession('busy'))))
    const others = await Promise.all(Array.from({ length: 20 }, () => producer.put(requestOf())))
    await allEnd(producer, others)
    expect(ran.filter(({ key }) => key === 'busy')).toHaveLength(1)
    // Executions that wait behind the first one of their session have positions and ETAs in the session's
    // order.
    const states = await Promise.all(busy.slice(1).map((a) => producer.get(a.execution_id)))
    expect(states.map((state) => state?.status)).toEqual(states.map(() => 'queued'))
    const positions = states.map((state) => state?.position ?? -1).toSorted((x, y) => x - y)
    expect(positions[0]).toBeLessThanOrEqual(1)
    expect(positions).toEqual(positions.map((_, n) => (positions[0] ?? 0) + n))
    expect(states.every((state) => (state?.eta_ms ?? -1) >= 0)).toBe(true)
    release.open()
    await allEnd(producer, busy)
    await expectNothingLeft(producer, ['acme'])
  })

  it('count against the queue depth of their tenant wherever they wait', async () => {
    const producer = bench.producer()
    await producer.setTenantLimits('acme', { ...WEIGHT_1, max_queued: 3 })
    const release = gate()
    const ran: Ran[] = []
    startConsumers(['a'], ran, async (taken) => {
      await release.opened
      await endWith('ok')(taken)
    })
    await vi.waitFor(async () => expect((await producer.stats()).workers).toHaveLength(1), 20_000)
    const accepted = [await producer.put(inSession('one'))]
    await vi.waitFor(() => expect(ran).toHaveLength(1), 20_000)
    for (let n = 0; n < 3; n += 1) accepted.push(await producer.put(inSession('one')))
    await expect(producer.put(inSession('one'))).rejects.toMatchObject({
      code: 'queue_full',
      details: { queued: 3, limit: 3 },
    })
    expect((await producer.stats()).lanes.interactive).toMatchObject({ queued: 3, running: 1 })
    release.open()
    await allEnd(producer, accepted)
    await expectNothingLeft(producer, ['acme'])
  })

  it('continue in order when one of them is retried, given back, deferred, put off or delayed', async () => {
    const producer = bench.producer()
    const ran: Ran[] = []
    const seen = new Map<string, number>()
    startConsumers(['a', 'b'], ran, async (taken) => {
      const times = (seen.get(taken.executionId) ?? 0) + 1
      seen.set(taken.executionId, times)
      const agent = taken.request.agent_id
      if (times === 1 && agent === 'given') return taken.giveBack()
      if (times === 1 && agent === 'deferred') return taken.defer(Date.now() + 30, 'cap')
      if (times === 1 && agent === 'put-off') return taken.putOff(taken.nowMs() + 30, 'no room')
      await taken.begin(sandboxRef(), SANDBOX_INFO)
      if (times === 1 && agent === 'retried')
        return taken.retry(recordOf(taken, 'sandbox_lost'), { slotMs: 1 })
      await endWith('ok')(taken)
    })
    const accepted: Accepted[] = []
    for (const agent of ['plain', 'given', 'plain', 'deferred', 'put-off', 'retried', 'plain'])
      accepted.push(await producer.put(inSession('one', 'acme', { agent_id: agent })))
    const late = await producer.put(inSession('one', 'acme', { delay_ms: 200 }))
    await allEnd(producer, [...accepted, late])
    const ids = ran.map(({ id }) => id)
    expect(ids.filter((id, n) => id !== ids[n - 1])).toEqual([...accepted, late].map((a) => a.execution_id))
    expect(ids).toHaveLength(accepted.length + 1 + 4)
    expect(new Set(ran.map(({ worker }) => worker)).size).toBe(1)
    await expectNothingLeft(producer, ['acme'])
  })
})

describe('cancelling an execution of a session', () => {
  it('works in every place where it can wait, and the next one of the session then runs', async () => {
    const producer = bench.producer()
    const ran: Ran[] = []
    let release = gate()
    startConsumers(
      ['a'],
      ran,
      async (taken) => {
        if (taken.request.agent_id === 'slow') await release.opened
        await endWith('ok')(taken)
      },
      { slots: 1 },
    )
    await allEnd(producer, [await producer.put(inSession('one'))])
    const blocker = await producer.put(requestOf({ agent_id: 'slow' }))
    await vi.waitFor(() => expect(ran).toHaveLength(2), 20_000)
    // The only slot is taken. The first execution of the session waits, assigned to the worker, and the
    // others wait behind it.
    const [front, second, third] = [
      await producer.put(inSession('one')),
      await producer.put(inSession('one')),
      await producer.put(inSession('one')),
    ]
    expect(await bench.redis.keys('{cofferdam}:handed:*')).toHaveLength(1)
    expect(await producer.get(front.execution_id)).toMatchObject({ status: 'queued', position: 0 })
    expect(await producer.get(third.execution_id)).toMatchObject({ status: 'queued', position: 2 })
    expect(await producer.cancel(second.execution_id)).toBe('cancelled')
    expect(await producer.cancel(front.execution_id)).toBe('cancelled')
    expect(await producer.get(third.execution_id)).toMatchObject({ status: 'queued', position: 0 })
    release.open()
    await allEnd(producer, [blocker, third])
    expect(ran.map(({ id }) => id).slice(2)).toEqual([third.execution_id])

    release = gate()
    const running = await producer.put(inSession('one', 'acme', { agent_id: 'slow' }))
    const behind = await producer.put(inSession('one'))
    await vi.waitFor(() => expect(ran.at(-1)?.id).toBe(running.execution_id), 20_000)
    expect(await producer.cancel(running.execution_id)).toBe('cancelling')
    release.open()
    await allEnd(producer, [running, behind])
    await expectNothingLeft(producer, ['acme'])
  })
})

describe('a session whose worker goes away', () => {
  it('continues on another worker at once when its worker drains', async () => {
    const producer = bench.producer()
    const ran: Ran[] = []
    const release = gate()
    const [first] = startConsumers(
      ['a'],
      ran,
      async (taken) => {
        if (taken.request.agent_id === 'slow') await release.opened
        await endWith('ok')(taken)
      },
      { slots: 1 },
    )
    await allEnd(producer, [await producer.put(inSession('one'))])
    const blocker = await producer.put(requestOf({ agent_id: 'slow' }))
    await vi.waitFor(() => expect(ran).toHaveLength(2), 20_000)
    const waiting = [await producer.put(inSession('one')), await producer.put(inSession('one'))]
    startConsumers(['b'], ran)
    const drained = first!.drain({ graceMs: 30_000 })
    await allEnd(producer, waiting)
    expect(ran.slice(2).map(({ worker, id }) => [worker, id])).toEqual(
      waiting.map((a) => ['b', a.execution_id]),
    )
    release.open()
    await drained
    await allEnd(producer, [blocker])
    await expectNothingLeft(producer, ['acme'])
  })

  it('continues on another worker within lock and sweep time after kill -9', async () => {
    const producer = bench.producer()
    const owner = await startWorker('owner', 1500)
    await allEnd(producer, [await producer.put(inSession('one'))])
    await startWorker('heir', 1500)
    // Each runs for 0 to 10 ms, so the kill meets executions that are taken, assigned, or waiting.
    const accepted = await Promise.all(Array.from({ length: 60 }, () => producer.put(inSession('one'))))
    await vi.waitFor(
      async () => expect(await bench.redis.llen('test:ran:acme:one')).toBeGreaterThan(5),
      20_000,
    )
    owner.kill('SIGKILL')
    const killedMs = Date.now()
    // If the first worker had already ended all 60, the second one still gets something to run.
    accepted.push(await producer.put(inSession('one')))
    const runBy = async (name: string) =>
      (await bench.redis.lrange('test:ran:acme:one', 0, -1)).filter((entry) => entry.includes(name)).length
    await vi.waitFor(async () => expect(await runBy('_heir ')).toBeGreaterThan(0), 20_000)
    expect(Date.now() - killedMs).toBeLessThan(15_000)
    const results = await Promise.all(
      accepted.map((a) => producer.wait(a.execution_id, { timeoutMs: 30_000 })),
    )
    const endings = results.map((result) => result?.ending)
    expect(endings.filter((ending) => ending === 'worker_lost').length).toBeLessThanOrEqual(1)
    expect(endings.filter((ending) => ending !== 'ok' && ending !== 'worker_lost')).toEqual([])
    const ran = (await bench.redis.lrange('test:ran:acme:one', 0, -1)).map(
      (entry) => entry.split(' ') as [string, string],
    )
    expect(ran.at(-1)?.[0]).toBe('wrk_0123456789ab_heir')
    expect(new Set(ran.map(([, id]) => id)).size).toBe(ran.length)
    await expectNothingLeft(producer, ['acme'])
  }, 180_000)
})

describe('many sessions on three worker processes', () => {
  const sessions = isLongTier() ? 200 : 50
  it(`${sessions} sessions of 5 executions each run in order, one at a time, on one worker`, async () => {
    const producer = bench.producer()
    await Promise.all(['a', 'b', 'c'].map((name) => startWorker(name)))
    const bySession = new Map<string, ExecutionId[]>()
    const accepted: Accepted[] = []
    for (let n = 0; n < 5; n += 1)
      await Promise.all(
        Array.from({ length: sessions }, async (_, s) => {
          const tenant = `t${s % 4}`
          const one = await producer.put(
            inSession(`s${s}`, tenant, { lane: s % 5 === 0 ? 'routine' : 'interactive' }),
          )
          bySession.set(`${tenant}:s${s}`, [...(bySession.get(`${tenant}:s${s}`) ?? []), one.execution_id])
          accepted.push(one)
        }),
      )
    await allEnd(producer, accepted, 120_000)
    expect(await bench.redis.get('test:overlaps')).toBeNull()
    const endings = await bench.redis.hgetall('test:endings')
    expect(Object.keys(endings)).toHaveLength(sessions * 5)
    expect(Object.values(endings).filter((count) => count !== '1')).toEqual([])
    for (const [session, ids] of bySession) {
      const ran = (await bench.redis.lrange(`test:ran:${session}`, 0, -1)).map((entry) => entry.split(' '))
      expect(ran.map(([, id]) => id)).toEqual(ids)
      expect([session, new Set(ran.map(([worker]) => worker)).size]).toEqual([session, 1])
    }
    await expectNothingLeft(producer, ['t0', 't1', 't2', 't3'])
  }, 180_000)
})

describe('many waiting session executions of one tenant', () => {
  it.each([
    ['one session', 1],
    ['300 sessions', 300],
  ])(
    'in %s delay another tenant by at most two service times',
    async (_what, sessions) => {
      const producer = bench.producer()
      const ran: Ran[] = []
      const starts: string[] = []
      // Heavy executions wait while this gate is closed: during a put of the light tenant, and again once its
      // execution has started.
      let service = gate()
      let held = 0
      service.open()
      startConsumers(['a'], ran, async (taken) => {
        starts.push(taken.request.tenant_id)
        if (taken.request.tenant_id === 'light') service = gate()
        else {
          held += 1
          await service.opened
          held -= 1
        }
        await endWith('ok', 20)(taken)
      })
      // Each session already has its worker, so the following executions are assigned to it.
      const warm = await Promise.all(
        Array.from({ length: sessions }, (_, n) => producer.put(inSession(`s${n}`, 'heavy'))),
      )
      await allEnd(producer, warm)
      service = gate()
      const flood: Accepted[] = []
      for (let n = 0; n < 600; n += 1) flood.push(await producer.put(inSession(`s${n % sessions}`, 'heavy')))
      for (const request of [
        requestOf({ tenant_id: 'light' }),
        inSession('own', 'light'),
        inSession('own', 'light'),
      ]) {
        await vi.waitFor(() => expect(held).toBe(Math.min(4, sessions)), 20_000)
        const before = starts.length
        // Keep the gate: with a free slot, the execution may start and replace `service` before its put is
        // answered.
        const closed = service
        const { execution_id } = await producer.put(request, { awaitReply: true })
        closed.open()
        expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
        // With four slots, two service times are eight starts.
        expect(starts.indexOf('light', before) - before).toBeLessThanOrEqual(8)
      }
      for (const one of flood) await producer.cancel(one.execution_id)
      service.open()
      await Promise.all(flood.map((one) => producer.wait(one.execution_id, { timeoutMs: 30_000 })))
      await expectNothingLeft(producer, ['heavy', 'light'])
    },
    180_000,
  )
})
