/** Vendor backends with their doubles: what a caller sees, and what remains of a dead worker. */
import { mkdtemp, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { ExecutionRequestInput, ExecutionResult } from '@cofferdam/contract'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { inLongTier, isLongTier, needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import {
  EXAMPLE_SECRETS,
  startAgentcoreDouble,
  type AgentcoreDouble,
} from '@cofferdam/backend-agentcore/double'
import { startE2bDouble, type E2bDouble } from '@cofferdam/backend-e2b/double'
import { NODE } from '@cofferdam/backend-remote/double'
import { startKubernetesDouble, type KubernetesDouble } from '@cofferdam/backend-kubernetes/double'
import { DAY_MS, untilWindowLasts } from '../../libs/embedded/src/window-end.ts'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'

const withBwrap = needs('bwrap')
/** Another worker sweeps after missed heartbeats. By default it takes at most a minute. */
const SWEPT_MS = 60_000
/** Long enough that a session survives the restart of its worker on any machine. */
const RESTS = { idle_ms: 600_000 }

withBwrap.describe('remote backends', () => {
  let fleet: Fleet
  let agentcore: AgentcoreDouble
  let e2b: E2bDouble
  let cluster: KubernetesDouble
  let worker: FleetWorker

  const startWorker = async (): Promise<FleetWorker> => {
    const folder = await mkdtemp(path.join(fleet.dataDir, 'config-'))
    const keyFile = path.join(folder, 'key')
    const secretFile = path.join(folder, 'secret')
    await writeFile(keyFile, e2b.apiKey)
    await writeFile(secretFile, 'of-the-whole-fleet-and-long-enough')
    const file = path.join(folder, 'cofferdam.config.yaml')
    const keys = path.join(folder, 'aws')
    const { accessKeyId, secretAccessKey } = EXAMPLE_SECRETS
    await writeFile(
      keys,
      `[default]\naws_access_key_id=${accessKeyId}\naws_secret_access_key=${secretAccessKey}\n`,
    )
    const backends = {
      agentcore: {
        region: 'eu-central-1',
        endpoint: agentcore.origin,
        credentials_file: keys,
        interpreters: { 'internal-only': 'internal-0123456789' },
        node: NODE,
      },
      e2b: { api_key_file: keyFile, api_url: e2b.origin, sandbox_url: e2b.origin, node: NODE },
      kubernetes: { api_server: cluster.origin, token_file: null, session_secret_file: secretFile },
    }
    await writeFile(file, JSON.stringify({ backends }))
    return await fleet.startWorker({
      COFFERDAM_CONFIG: file,
      COFFERDAM_SLOTS: '4',
      COFFERDAM_SESSION_REAP_MS: '500',
      COFFERDAM_SWEEP_MS: '2000',
    })
  }

  beforeAll(async () => {
    ;[fleet, agentcore, e2b, cluster] = await Promise.all([
      startFleet(),
      startAgentcoreDouble(),
      startE2bDouble(),
      startKubernetesDouble({ replicas: 1 }),
    ])
    await fleet.createTenant('acme', { caps: { tenant_daily: 10_000, agent_hourly: 10_000 } })
    worker = await startWorker()
  })
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]()
    await Promise.all([agentcore, e2b, cluster].map((double) => double?.[Symbol.asyncDispose]()))
  })

  const run = (
    backend: string,
    source: string,
    more: Partial<ExecutionRequestInput> = {},
  ): Promise<ExecutionResult> =>
    fleet.client.run(
      {
        tenant_id: 'acme',
        agent_id: 'a',
        backend,
        program: { type: 'script', language: 'python', source },
        ...more,
      },
      { timeoutMs: 90_000 },
    )

  it.each([
    ['agentcore', 'microvm'],
    ['e2b', 'microvm'],
    ['kubernetes', 'container'],
  ])(
    '%s runs a program with files, value and artifacts, and leaves an audit row',
    async (backend, isolation) => {
      const result = await run(
        backend,
        "text = open('in.txt').read()\nopen('out.txt', 'w').write(text.upper())\nprint('done')\nlen(text)",
        { files: [{ path: 'in.txt', content: 'hello' }], artifacts: ['out.txt'] },
      )
      expect(result).toMatchObject({ ok: true, stdout: 'done\n', value: 5, backend, isolation })
      expect(result.artifacts).toMatchObject([{ path: 'out.txt', size: 5 }])
      const page = await fleet.store.listAudit({ tenantId: 'acme', limit: 1 })
      expect(page.rows[0]).toMatchObject({ backend, isolation, ending: 'ok', quota_charged: true })
    },
  )

  it.each(isLongTier() ? ['agentcore', 'e2b', 'kubernetes'] : ['e2b'])(
    '%s ends a program at its deadlines',
    async (backend) => {
      const soft = await run(backend, "import time\nprint('up', flush=True)\ntime.sleep(60)", {
        limits: { soft_timeout_ms: 3000, hard_timeout_ms: 30_000 },
      })
      expect(soft).toMatchObject({ ending: 'soft_timeout', stdout: 'up\n' })
      // After a kill, AgentCore's answer may come too late for the hard deadline. With `previews`, the output
      // comes before the answer.
      agentcore.previews = true
      onTestFinished(() => void (agentcore.previews = false))
      const hard = await run(
        backend,
        "import signal, time\nfor s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\nprint('up', flush=True)\nwhile True: time.sleep(1)",
        { limits: { soft_timeout_ms: 3000, hard_timeout_ms: 4000 } },
      )
      expect(hard).toMatchObject({ ending: 'hard_timeout', stdout: 'up\n' })
    },
  )

  it('an execution waits in the queue, uncharged, while its vendor has no capacity', async () => {
    await untilWindowLasts(DAY_MS, 60_000)
    const used = async () => (await fleet.admission.usage('acme', 'waits')).tenant_daily.used
    const usedBefore = await used()
    e2b.fault({ throttle_creates: 1_000_000 })
    const waits = { tenant_id: 'acme', agent_id: 'waits', backend: 'e2b' } as const
    const program = { type: 'script', language: 'python', source: 'print(1)' } as const
    // More executions than the worker has slots.
    const waiting = await Promise.all(
      Array.from({ length: 6 }, () => fleet.client.enqueue({ ...waits, program })),
    )
    const events: string[] = []
    for await (const { event } of fleet.client.stream(waiting[0]!.execution_id)) {
      if (event.type !== 'notice' || !event.message.includes('Waits for room')) continue
      events.push(event.message)
      if (events.length > 1) continue
      expect(await run('kubernetes', 'print(2)', { agent_id: 'waits' })).toMatchObject({ stdout: '2\n' })
      e2b.fault({ throttle_creates: 0 })
    }
    expect(events).not.toEqual([])
    const results = await Promise.all(
      waiting.map(({ execution_id: id }) => fleet.client.wait(id, { timeoutMs: SWEPT_MS })),
    )
    for (const result of results) expect(result).toMatchObject({ ending: 'ok', attempt: 1, stdout: '1\n' })
    expect((await used()) - usedBefore).toBe(7)
  })

  inLongTier(
    'a session keeps its pod when its worker dies between two turns, and ends when idle',
    async () => {
      const redis = connectRedis(fleet.redisUrl, 'worker')
      onTestFinished(() => redis.disconnect())
      const sessions = createSessionRegistry({ redis })
      const session = { key: 'repl', scope: 'interpreter', ...RESTS } as const
      const first = await run('kubernetes', 'x = 20', { session })
      expect(first).toMatchObject({ ok: true })
      const name = { tenantId: 'acme', backend: 'kubernetes', key: 'repl' }
      await vi.waitFor(
        async () => expect(await sessions.find(name)).toMatchObject({ holder: null }),
        SWEPT_MS,
      )
      await worker.kill()
      worker = await startWorker()
      expect(await run('kubernetes', 'x + 1', { session: { ...session, idle_ms: 1000 } })).toMatchObject({
        value: 21,
        session: { id: first.session?.id, fresh: false, interpreter: 'kept' },
      })
      await vi.waitFor(() => expect(cluster.claims()).toEqual([]), { timeout: SWEPT_MS, interval: 100 })
      await vi.waitFor(async () => expect(await sessions.find(name)).toBeNull(), SWEPT_MS)
    },
  )

  inLongTier(
    'a session whose worker dies in its turn loses its sandbox, and an idle one keeps it',
    async () => {
      const redis = connectRedis(fleet.redisUrl, 'worker')
      onTestFinished(() => redis.disconnect())
      const sessions = createSessionRegistry({ redis })
      const entryOf = (key: string) => sessions.find({ tenantId: 'acme', backend: 'e2b', key })
      const sandboxOf = async (key: string): Promise<string> =>
        String((await entryOf(key))?.handle['sandbox'])
      const ids = (): string[] => e2b.running().map(({ id }) => id)
      const scope = 'interpreter' as const
      const resting = await run('e2b', 'x = 20', { session: { key: 'rests', scope, ...RESTS } })
      const dying = await run('e2b', 'x = 20', { session: { key: 'dies', scope, ...RESTS } })
      const [rests, dies] = [await sandboxOf('rests'), await sandboxOf('dies')]
      expect([resting.ok, dying.ok]).toEqual([true, true])
      expect(ids()).toEqual(expect.arrayContaining([rests, dies]))
      const { execution_id: id } = await fleet.client.enqueue({
        tenant_id: 'acme',
        agent_id: 'a',
        backend: 'e2b',
        program: {
          type: 'script',
          language: 'python',
          source: "import time\nprint('up', flush=True)\ntime.sleep(600)",
        },
        limits: { soft_timeout_ms: 100_000, hard_timeout_ms: 110_000 },
        session: { key: 'dies', scope },
      })
      for await (const { event } of fleet.client.stream(id)) if (event.type === 'output') break
      // The turn ends after its result is visible.
      await vi.waitFor(async () => expect(await entryOf('rests')).toMatchObject({ holder: null }), SWEPT_MS)
      await worker.kill()
      worker = await startWorker()
      expect(await fleet.client.wait(id, { timeoutMs: SWEPT_MS })).toMatchObject({ ending: 'worker_lost' })
      await vi.waitFor(() => expect(ids()).toEqual([rests]), { timeout: SWEPT_MS, interval: 100 })
      const anew = { session: { key: 'dies', scope, idle_ms: 1000 } }
      const after = await run('e2b', "'x' in globals()", anew)
      expect([after.value, after.session?.fresh, after.session?.id === dying.session?.id]).toEqual([
        false,
        true,
        false,
      ])
      expect(await run('e2b', 'x + 1', { session: { key: 'rests', scope, idle_ms: 1000 } })).toMatchObject({
        value: 21,
        session: { id: resting.session?.id, fresh: false, interpreter: 'kept' },
      })
      await vi.waitFor(() => expect(ids()).toEqual([]), { timeout: SWEPT_MS, interval: 100 })
    },
  )

  inLongTier('a worker deletes everything that a killed worker left at the vendors', async () => {
    const sleeping = await Promise.all(
      ['agentcore', 'e2b', 'kubernetes'].map((backend) =>
        fleet.client.enqueue({
          tenant_id: 'acme',
          agent_id: 'a',
          backend,
          program: {
            type: 'script',
            language: 'python',
            source: "import time\nprint('up', flush=True)\ntime.sleep(600)",
          },
          limits: { soft_timeout_ms: 100_000, hard_timeout_ms: 110_000 },
        }),
      ),
    )
    // Waits until every program runs, because an execution that has not begun would run again. AgentCore
    // sends output only at the end, so its execution counts as running from the event `started`.
    for (const [n, { execution_id: id }] of sleeping.entries())
      for await (const { event } of fleet.client.stream(id))
        if (event.type === (n === 0 ? 'started' : 'output')) break
    const running = (): string[] => [
      ...agentcore.sessions.running().map(({ id }) => id),
      ...e2b.running().map(({ id }) => id),
      ...cluster.claims().map(({ name }) => name),
    ]
    const old = new Set(running())
    await worker.kill()
    worker = await startWorker()
    for (const { execution_id: id } of sleeping)
      expect(await fleet.client.wait(id, { timeoutMs: SWEPT_MS })).toMatchObject({ ending: 'worker_lost' })
    await vi.waitFor(
      () => {
        expect(running().filter((name) => old.has(name))).toEqual([])
      },
      { timeout: SWEPT_MS, interval: 200 },
    )
  })
})
