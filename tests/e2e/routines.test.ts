/** Long runs beside short ones, progress, heartbeats and checkpoints, with real workers and sandboxes. */
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { routineInputSchema, type ExecutionRequestInput } from '@cofferdam/contract'
import { inLongTier, isLongTier, needs, needsBackend } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'

const withProcess = needs('process')
let fleet: Fleet
let worker: FleetWorker
const folder = temporaryFolder('e2e-routines')
const config = path.join(folder, 'cofferdam.config.yaml')
beforeAll(() => writeFileSync(config, "callbacks: { private_allow: ['127.0.0.1/32'] }\n"))
const BACKENDS = {
  COFFERDAM_BACKENDS: 'gvisor,docker,process,none',
  COFFERDAM_SLOTS: '4',
  COFFERDAM_CONFIG: config,
}
beforeAll(async () => {
  fleet = await startFleet()
  await fleet.createTenant('acme', {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 100_000, agent_hourly: 100_000, concurrency: 64 },
  })
  worker = await fleet.startWorker(BACKENDS)
})
afterAll(async () => {
  await fleet[Symbol.asyncDispose]()
})

const python = (source: string, extra: Partial<ExecutionRequestInput> = {}): ExecutionRequestInput => ({
  tenant_id: 'acme',
  agent_id: 'agent-1',
  program: { type: 'script', language: 'python', source },
  backend: 'process',
  ...extra,
})
const HOURS = { soft_timeout_ms: 7_200_000, hard_timeout_ms: 7_205_000 }

withProcess.describe('the routine lane', () => {
  it('leaves interactive work its slots, however many long runs there are', async () => {
    const forever = python('import time\ntime.sleep(3600)', { lane: 'routine', limits: HOURS })
    const long = await Promise.all(Array.from({ length: 12 }, () => fleet.client.enqueue(forever)))
    const running = async () =>
      (await Promise.all(long.map((one) => fleet.client.get(one.execution_id)))).filter(
        (state) => state?.status === 'running',
      ).length
    await expect.poll(running, { timeout: 60_000 }).toBe(2)
    const short = await Promise.all(Array.from({ length: 20 }, () => fleet.client.run(python('print(1)'))))
    expect(short.map(({ stdout }) => stdout)).toEqual(Array.from({ length: 20 }, () => '1\n'))
    expect(await running()).toBe(2)
    for (const one of long) await fleet.client.cancel(one.execution_id)
    await Promise.all(long.map((one) => fleet.client.wait(one.execution_id, { timeoutMs: 60_000 })))
  })
})

for (const backend of isLongTier() ? ['process', 'docker', 'gvisor', 'none'] : ['process', 'docker'])
  needsBackend(backend).describe(`progress in ${backend}`, () => {
    it('is shown live and in the state, redacted', async () => {
      const source = [
        'import cofferdam, os, sys',
        'cofferdam.progress(0.25, "loading " + os.environ["API_TOKEN"])',
        'sys.stdin.read()',
      ].join('\n')
      const env = { API_TOKEN: 'tok-5f2a9c1b7e3d4a6f' }
      const { execution_id: id } = await fleet.client.enqueue(python(source, { backend, env }))
      const seen: unknown[] = []
      for await (const { event } of fleet.client.stream(id)) {
        if (event.type === 'progress') seen.push([event.fraction, event.message])
        if (event.type === 'ended') expect(event.ending).toBe('ok')
      }
      expect(seen).toEqual([[0.25, expect.stringMatching(/^loading (?!tok-)/)]])
      const state = await fleet.client.get(id)
      expect(state?.progress).toMatchObject({ fraction: 0.25 })
      expect(JSON.stringify(state)).not.toContain(env.API_TOKEN)
    })

    inLongTier(
      'is a heartbeat: a silent program is stopped, and one that reports is not stopped',
      async () => {
        // An interpreter starts in 0.5 s, or ten times as long on a slow machine. The start must not count as
        // silence.
        const limits = { heartbeat_timeout_ms: 8000 }
        const silent = python(
          'import cofferdam, time\ncofferdam.progress(0.1)\nprint("on it", flush=True)\ntime.sleep(60)',
          { backend, limits },
        )
        const busy = python(
          'import cofferdam, time\nfor n in range(20):\n    cofferdam.progress(n / 20)\n    time.sleep(0.5)\nprint("done")',
          { backend, limits },
        )
        const [stopped, done] = await Promise.all([fleet.client.run(silent), fleet.client.run(busy)])
        expect(stopped).toMatchObject({
          ending: 'soft_timeout',
          reason: 'heartbeat_timeout',
          stdout: 'on it\n',
        })
        expect(stopped.error_message).toMatch(/reported no progress for 8000 ms/)
        expect(done).toMatchObject({ ending: 'ok', stdout: 'done\n' })
      },
    )
  })

withProcess.describe('checkpoints', () => {
  const STEPS = [
    'import os, pathlib, sys',
    'at = pathlib.Path("checkpoint/step")',
    'step = int(at.read_text()) if at.exists() else 0',
    'print("from", step)',
    'at.parent.mkdir(exist_ok=True)',
    'at.write_text(str(step + 1))',
  ]

  it('of a failed attempt are found by the next attempt, and deleted after the last one', async () => {
    const source = [...STEPS, 'sys.exit(0 if step == 2 else 3)'].join('\n')
    const result = await fleet.client.run(
      python(source, { checkpoint: {}, retry: { max_attempts: 5, on: ['error'] } }),
    )
    expect(result).toMatchObject({ ok: true, attempt: 3, stdout: 'from 2\n' })
    // Checkpoints are deleted only after the ending is published. Until then, a dead worker's successor needs
    // them.
    await expect.poll(() => keysOf(result.execution_id), { timeout: 20_000 }).toEqual([])
  })

  inLongTier(
    'of a worker that died are those that were copied while it ran',
    async () => {
      const source = [
        ...STEPS,
        'import cofferdam, time',
        'cofferdam.progress(0.5)',
        'if step == 0: time.sleep(600)',
      ].join('\n')
      const victim = await fleet.startWorker({ ...BACKENDS, COFFERDAM_LANES: 'routine' })
      await worker.stop()
      const { execution_id: id } = await fleet.client.enqueue(
        python(source, {
          lane: 'routine',
          limits: HOURS,
          checkpoint: { every_ms: 1000 },
          retry: { max_attempts: 2, on: ['worker_lost'] },
        }),
      )
      await expect.poll(() => keysOf(id), { timeout: 60_000 }).toHaveLength(1)
      await victim.kill()
      worker = await fleet.startWorker(BACKENDS)
      const result = await fleet.client.wait(id, { timeoutMs: 120_000 })
      expect(result).toMatchObject({ ok: true, attempt: 2, stdout: 'from 1\n' })
      await expect.poll(() => keysOf(id), { timeout: 20_000 }).toEqual([])
    },
    240_000,
  )
})

withProcess.describe('a callback', () => {
  it("is sent by a real worker to an allowed address, signed with the tenant's secret", async () => {
    const { secret } = await fleet.store.callbackSecrets.rotate('acme')
    const received: { signature: string; signed: string; body: string }[] = []
    const receiver = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString()
        const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signature } = request.headers
        received.push({ signature: String(signature), signed: `${String(id)}.${String(at)}.${body}`, body })
        response.writeHead(204).end()
      })
    })
    receiver.listen(0, '127.0.0.1')
    await once(receiver, 'listening')
    try {
      const { port } = receiver.address() as AddressInfo
      const { execution_id: id } = await fleet.client.run(
        python('print("told")', { callback_url: `http://127.0.0.1:${port}/` }),
      )
      await expect.poll(() => received.length, { timeout: 30_000 }).toBe(1)
      const [{ signature, signed, body } = { signature: '', signed: '', body: '{}' }] = received
      expect(JSON.parse(body)).toMatchObject({ execution_id: id, stdout: 'told\n' })
      const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
      expect(signature).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`)
    } finally {
      receiver.closeAllConnections()
      receiver.close()
      await once(receiver, 'close')
    }
  })
})

withProcess.describe('a routine', () => {
  it('runs by its schedule on a real worker, and its rows name it', async () => {
    const routine = await fleet.store.routines.create(
      routineInputSchema.parse({
        name: 'every second',
        request: python('print("tick")', { retry: undefined }),
        schedule: { cron: '* * * * * *', time_zone: 'Europe/Berlin' },
      }),
      'test',
    )
    // Workers read the table of routines when they start and then every minute, so restart the worker.
    await worker.stop()
    worker = await fleet.startWorker(BACKENDS)
    const ended = async () => {
      const runs = await fleet.store.routines.runs(null, routine.routine_id, 50)
      const ids = runs.flatMap((run) => run.execution_id ?? [])
      const states = await Promise.all(ids.map((id) => fleet.client.get(id)))
      return states.filter((state) => state?.result?.stdout === 'tick\n').length
    }
    await expect.poll(ended, { timeout: 60_000 }).toBeGreaterThan(1)
    await fleet.store.routines.remove(null, routine.routine_id, 'test')
    const { rows } = await fleet.store.listAudit({ tenantId: 'acme', limit: 500 })
    const scheduled = rows.filter((row) => row.invocation_source === 'scheduled')
    expect(scheduled.length).toBeGreaterThan(1)
  })
})

/** Redis keys that hold files of an execution's attempts. */
async function keysOf(id: string): Promise<string[]> {
  const { connectRedis } = await import('@cofferdam/queue')
  const redis = connectRedis(fleet.redisUrl, 'worker')
  try {
    return (await redis.exists(`{cofferdam}:ck:${id}`)) === 1 ? [id] : []
  } finally {
    redis.disconnect()
  }
}
