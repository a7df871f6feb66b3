/** Sessions that wait at AgentCore: ready before anybody asks, few, never old, and never left behind, whenever their worker dies. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  newWorkerId,
  type Backend,
  type Sandbox,
  type SandboxSpec,
  type SessionRegistry,
} from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  EXAMPLE_SECRETS,
  startAgentcoreDouble,
  type AgentcoreDouble,
} from '../../../infra/doubles/agentcore/agentcore-double.ts'
import type { Fault } from '../../../infra/doubles/agentcore/faults.ts'
import type { Session } from '../../../infra/doubles/agentcore/sessions.ts'
import { missing, NODE } from '../../../infra/doubles/jail.ts'
import { warmPlaces } from '../conformance/index.ts'
import { createAgentcoreBackend } from '../src/agentcore/index.ts'
import type { WarmEvent } from '../src/warm/index.ts'
import { redisSessions } from './redis-sessions.ts'
import { jobSpec, printed, python } from './remote-run.ts'

const why = missing()
const DIES = fileURLToPath(new URL('agentcore-worker-that-dies.ts', import.meta.url))
const IDS = { 'default-public': 'public-0123456789', 'internal-only': 'internal-0123456789' }
/** A busy machine takes its time; nothing here waits for it to pass. */
const AT_MOST = { timeout: 30_000, interval: 20 }

describe.skipIf(why !== null && process.env['COFFERDAM_REQUIRE'] !== 'all')(
  `agentcore’s sessions that wait ${why ?? ''}`,
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'cofferdam-agentcore-'))
    const keys = join(folder, 'credentials')
    const opened: AsyncDisposable[] = []
    let double: AgentcoreDouble

    beforeAll(async () => {
      const { accessKeyId, secretAccessKey } = EXAMPLE_SECRETS
      writeFileSync(
        keys,
        `[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`,
      )
      double = await startAgentcoreDouble({ ratePerSecond: 1000 })
    })
    afterEach(async () => {
      double.fault()
      double.previews = false
      for (const one of opened.splice(0).toReversed()) await one[Symbol.asyncDispose]()
      expect(
        double.sessions.running().map(({ name }) => name),
        'left at the service',
      ).toEqual([])
    })
    afterAll(async () => {
      await double[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true })
    })

    const settings = (change: object = {}) => ({
      region: 'eu-central-1',
      endpoint: double.origin,
      credentials_file: keys,
      interpreters: { 'internal-only': IDS['internal-only'] },
      calls_per_second: 1000,
      node: NODE,
      ...change,
    })

    /** A worker's backend, and how to open a sandbox there. */
    function worker(change: object = {}, sessions?: SessionRegistry) {
      const owner = newWorkerId('aceaceaceace')
      const events: WarmEvent[] = []
      const warm = { ...warmPlaces(owner), observe: (event: WarmEvent) => void events.push(event) }
      const backend: Backend = createAgentcoreBackend(settings(change), {
        warm,
        ...(sessions === undefined ? {} : { sessions }),
      })
      opened.push(backend)
      async function open(more: Partial<SandboxSpec> = {}): Promise<Sandbox> {
        const spec = { ...jobSpec('aceaceaceace', python('print("ran")')), owner, ...more }
        const sandbox = await backend.open(spec, AbortSignal.timeout(30_000))
        opened.push(sandbox)
        return sandbox
      }
      return { owner, backend, open, events }
    }

    const waiting = (owner: string): Session[] =>
      double.sessions.running().filter(({ name }) => name?.startsWith(`cfd-${owner}-warm_`))
    /** Sessions wait from when they are known to be ready, a moment after the service has them. */
    async function ready(events: readonly WarmEvent[], count: number): Promise<void> {
      await vi.waitFor(
        () => expect(events.filter(({ type }) => type === 'warmed').length).toBeGreaterThanOrEqual(count),
        AT_MOST,
      )
    }
    const idOf = (sandbox: Sandbox): string => String(sandbox.ref.handle['session'])

    it('serve one execution each, which needs no start, and are stopped with it', async () => {
      const { owner, backend, open, events } = worker({ warm_sessions: 1 })
      backend.prewarm?.()
      await ready(events, 1)
      const [first] = waiting(owner)
      const sandbox = await open()
      expect([sandbox.warm, idOf(sandbox)]).toEqual([true, first?.id])
      expect(await printed(sandbox, python('print("ran")'))).toBe('ran\n')
      await sandbox[Symbol.asyncDispose]()
      expect(first?.ended).toBe('stopped')
      await ready(events, 2)
      const second = await open()
      expect([second.warm, idOf(second) === first?.id]).toEqual([true, false])
      expect(events).toContainEqual({ type: 'taken', backend: 'agentcore', warm: true })
      await ready(events, 3)
    })

    it('serve a turn, whose session no sweep of their worker ends any more', async () => {
      await using sessions = await redisSessions()
      const turn = {
        reuse: 'session',
        session: { key: 'turn', scope: 'interpreter', idleMs: null },
      } as const satisfies Partial<SandboxSpec>
      const one = worker({ warm_sessions: 1 }, sessions)
      one.backend.prewarm?.()
      await ready(one.events, 1)
      const [first] = waiting(one.owner)
      const sandbox = await one.open(turn)
      expect([sandbox.warm, sandbox.session?.fresh, idOf(sandbox)]).toEqual([true, true, first?.id])
      await printed(sandbox, python('kept = 41'))
      await sandbox[Symbol.asyncDispose]()
      await ready(one.events, 2)
      const other = worker({}, sessions)
      // As when that worker is dead: what still waits for it is stopped, what it gave away is not.
      expect(await other.backend.sweep(one.owner)).toEqual({ destroyed: 1 })
      expect(double.sessions.running().map(({ id }) => id)).toEqual([first?.id])
      const next = await other.open(turn)
      expect([next.warm, next.session?.fresh, idOf(next)]).toEqual([false, false, first?.id])
      expect(await printed(next, python('print(kept + 1)'))).toBe('42\n')
      next.retire?.()
      await next[Symbol.asyncDispose]()
      expect(first?.ended).toBe('stopped')
    })

    it('run nothing for a turn that was another’s by the time they were its own', async () => {
      await using sessions = await redisSessions()
      const session = { key: 'turn', scope: 'interpreter', idleMs: null } as const
      const one = worker(
        { warm_sessions: 1 },
        {
          ...sessions,
          async claim(name, ...asked) {
            // The registry is told that it waits no more: the last call before the turn is the caller's.
            if (name.key !== session.key) await sessions.expire({ ...name, tenantId: 't', key: session.key })
            return await sessions.claim(name, ...asked)
          },
        },
      )
      one.backend.prewarm?.()
      await ready(one.events, 1)
      const sandbox = await one.open({ reuse: 'session', session })
      expect(sandbox.warm).toBe(true)
      const before = double.calls.length
      await expect(printed(sandbox, python('print("ran")'))).rejects.toMatchObject({ code: 'sandbox_lost' })
      const calls = double.calls.slice(before).map(({ operation }) => operation)
      expect(calls).not.toContain('InvokeCodeInterpreter')
      await sandbox[Symbol.asyncDispose]()
    })

    it('are none by default, and none where nothing is to wait', async () => {
      const before = double.sessions.started
      for (const { backend, open, events } of [worker(), worker({ warm_sessions: 0 })]) {
        backend.prewarm?.()
        const sandbox = await open()
        expect([sandbox.warm, events]).toEqual([false, []])
      }
      expect(double.sessions.started - before).toBe(2)
    })

    it('are no more than allowed: the interpreter that nobody asked for longest gives way', async () => {
      const { owner, backend, open, events } = worker({ warm_sessions: 1, interpreters: IDS })
      backend.prewarm?.()
      await ready(events, 1)
      expect(waiting(owner).map(({ interpreter }) => interpreter)).toEqual([IDS['default-public']])
      const cold = await open({ network: 'none' })
      expect(cold.warm).toBe(false)
      await ready(events, 2)
      await vi.waitFor(
        () => expect(waiting(owner).map(({ interpreter }) => interpreter)).toEqual([IDS['internal-only']]),
        AT_MOST,
      )
    })

    it('are replaced when they get old', async () => {
      const { owner, backend, events } = worker({ warm_sessions: 1, warm_max_age_ms: 1000 })
      backend.prewarm?.()
      await ready(events, 2)
      const ofOurs = (): Session[] =>
        double.sessions.of(IDS['internal-only']).filter(({ name }) => name?.includes(`${owner}-warm_`))
      await vi.waitFor(() => expect(ofOurs().map(({ ended }) => ended)).toContain('stopped'), AT_MOST)
      expect(events).toContainEqual({ type: 'dropped', backend: 'agentcore', why: 'age' })
    })

    it('that died, or would end too early for its program, are not used', async () => {
      const { owner, backend, open, events } = worker({ warm_sessions: 1, call_max_ms: 300_000 })
      backend.prewarm?.()
      await ready(events, 1)
      const long = { ...jobSpec('aceaceaceace', python('')).limits, hard_timeout_ms: 900_000 }
      expect((await open({ limits: long })).warm).toBe(false)
      const [first] = waiting(owner)
      await first?.end('expired')
      const sandbox = await open()
      expect([sandbox.warm, await printed(sandbox, python('print("ran")'))]).toEqual([false, 'ran\n'])
      await ready(events, 2)
    })

    it('that cannot be started cost an execution nothing but the time of its own', async () => {
      const { open, events } = worker({ warm_sessions: 1 })
      const start = { operation: 'StartCodeInterpreterSession' } as const
      // The first start is that of what waits.
      double.fault({ ...start, kind: 'http', error: 'ServiceQuotaExceededException', match: '-warm_' })
      const sandbox = await open()
      expect(await printed(sandbox, python('print("ran")'))).toBe('ran\n')
      await vi.waitFor(() => expect(events.map(({ type }) => type)).toContain('warm_failed'), AT_MOST)
    })

    it.each<[string, boolean, Fault[], (said: string, calls: readonly string[]) => boolean]>([
      ['while sessions wait', true, [], () => double.sessions.running().length > 0],
      [
        'before it hears of its session',
        false,
        [{ operation: 'StartCodeInterpreterSession', kind: 'delay', ms: 500 }],
        (_said, calls) => calls.includes('StartCodeInterpreterSession'),
      ],
      [
        'before its session is ready',
        false,
        [{ operation: 'InvokeCodeInterpreter', kind: 'delay', ms: 500 }],
        (_said, calls) => calls.includes('InvokeCodeInterpreter'),
      ],
      ['while its program runs', false, [], (said) => said.includes('up')],
      [
        'before its program is done for',
        false,
        [{ operation: 'StopCodeInterpreterSession', kind: 'delay', ms: 500 }],
        (_said, calls) => calls.includes('StopCodeInterpreterSession'),
      ],
    ])(
      'and all others are stopped by another worker when theirs is killed %s',
      async (what, waits, faults, isThere) => {
        double.previews = true
        double.fault(...faults)
        const holds = what === 'while its program runs' ? 'import time\ntime.sleep(600)' : ''
        const program = python(`open("effect", "a").write("x")\nprint("up", flush=True)\n${holds}`)
        const spec = jobSpec('aceaceaceace', program)
        const calls = double.calls.length
        const given = JSON.stringify({ settings: settings({ warm_sessions: waits ? 1 : 0 }), spec, waits })
        const dying = spawn(process.execPath, [DIES, given], { stdio: ['ignore', 'pipe', 'inherit'] })
        const ended = once(dying, 'exit')
        let said = ''
        dying.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
        try {
          await vi.waitFor(
            () =>
              expect(
                isThere(
                  said,
                  double.calls.slice(calls).map(({ operation }) => operation),
                ),
              ).toBe(true),
            AT_MOST,
          )
        } finally {
          dying.kill('SIGKILL')
          await ended
        }
        // What was asked for before it died may be made after.
        const made = (): Session[] =>
          double.sessions.of(IDS['internal-only']).filter(({ name }) => name?.includes(spec.owner))
        await vi.waitFor(() => expect(made()).toHaveLength(1), AT_MOST)
        expect(effects()).toMatch(holds === '' ? /^x?$/ : /^x$/)
        const { backend: other } = worker()
        await vi.waitFor(async () => {
          await other.sweep(spec.owner)
          expect(double.sessions.running()).toEqual([])
        }, AT_MOST)
        expect(await other.owners()).not.toContain(spec.owner)
      },
    )

    /** What programs wrote in the sessions that run. */
    const effects = (): string =>
      double.sessions
        .running()
        .flatMap(({ jail }) => {
          const root = dirname(dirname(jail.socket))
          return globSync('home/.cofferdam-*/*/effect', { cwd: root }).map((path) =>
            readFileSync(join(root, path), 'utf8'),
          )
        })
        .join('')
  },
)
