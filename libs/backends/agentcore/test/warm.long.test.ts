/** Warm sessions at AgentCore: ready before a request, few, never old, never left behind. */
import {
  newWorkerId,
  type Sandbox,
  type SandboxSpec,
  type SessionEntry,
  type SessionRegistry,
} from '@cofferdam/contract'
import { expect, it, vi } from 'vitest'
import type { Fault } from '../double/faults.ts'
import type { Session } from '../double/sessions.ts'
import { warmSlots } from '@cofferdam/sandbox/conformance'
import { isWarmName } from '../src/session-name.ts'
import type { WarmEvent } from '@cofferdam/sandbox/warm'
import { AT_MOST, describeAgentcore, effectsIn, FLEET, IDS } from './at-double.ts'
import { killWorker } from './worker-killed.ts'
import { redisSessions, jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const INTERNAL = { 'internal-only': IDS['internal-only'] }

describeAgentcore('agentcore’s warm sessions', (at) => {
  /** A worker's backend, and a function that opens a sandbox there. */
  function worker(change: object = {}, sessions?: SessionRegistry) {
    const owner = newWorkerId(FLEET)
    const events: WarmEvent[] = []
    const warm = { ...warmSlots(owner), observe: (event: WarmEvent) => void events.push(event) }
    const deps = { warm, ...(sessions === undefined ? {} : { sessions }) }
    const backend = at.backend({ interpreters: INTERNAL, ...change }, deps)
    const open = async (more: Partial<SandboxSpec> = {}): Promise<Sandbox> =>
      await at.open(python('print("ran")'), { owner, ...more }, backend)
    return { owner, backend, open, events }
  }

  const waiting = (owner: string): Session[] =>
    at.double.sessions.running().filter(({ name }) => name?.startsWith(`cfd-${owner}-warm_`))
  /** A session is warm once its worker knows that it is ready, a moment after the service has it. */
  async function ready(events: readonly WarmEvent[], count: number): Promise<void> {
    await vi.waitFor(
      () => expect(events.filter(({ type }) => type === 'warmed').length).toBeGreaterThanOrEqual(count),
      AT_MOST,
    )
  }
  const idOf = (sandbox: Sandbox): string => String(sandbox.ref.handle['session'])

  it('serve one execution each without a start, and are stopped with it', async () => {
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

  it('serve a turn, and then no sweep of their worker stops them', async () => {
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
    // As if that worker were dead: its warm sessions are stopped, but not those that it gave to a turn.
    expect(await other.backend.sweep(one.owner)).toEqual({ destroyed: 1 })
    expect(at.double.sessions.running().map(({ id }) => id)).toEqual([first?.id])
    const next = await other.open(turn)
    expect([next.warm, next.session?.fresh, idOf(next)]).toEqual([false, false, first?.id])
    expect(await printed(next, python('print(kept + 1)'))).toBe('42\n')
    next.retire?.()
    await next[Symbol.asyncDispose]()
    expect(first?.ended).toBe('stopped')
  })

  it('are stopped by the worker in their name if the registry lost them during a turn', async () => {
    await using sessions = await redisSessions()
    const settings = { forgotten_after_ms: 0 }
    const [one, other] = [worker({ ...settings, warm_sessions: 1 }, sessions), worker(settings, sessions)]
    one.backend.prewarm?.()
    await ready(one.events, 1)
    const session = { key: 'turn', scope: 'interpreter', idleMs: null } as const
    const sandbox = await one.open({ reuse: 'session', session })
    expect(sandbox.warm).toBe(true)
    await sandbox[Symbol.asyncDispose]()
    await ready(one.events, 2)
    const [waits] = waiting(one.owner).filter(({ id }) => id !== idOf(sandbox))
    for (const by of [one, one, other, other]) await by.backend.owners()
    expect(at.double.sessions.running()).toHaveLength(2)
    await sessions.clear()
    // Only the worker whose ID is in the session's name knows whether the session is warm, so the others do
    // not stop it.
    for (const by of [other, other, one]) await by.backend.owners()
    expect(at.double.sessions.running()).toHaveLength(2)
    await one.backend.owners()
    expect(at.double.sessions.running().map(({ id }) => id)).toEqual([waits?.id])
  })

  it('run nothing for a turn that another worker took meanwhile', async () => {
    await using sessions = await redisSessions()
    const session = { key: 'turn', scope: 'interpreter', idleMs: null } as const
    const one = worker(
      { warm_sessions: 1 },
      {
        ...sessions,
        async claim(name, ...asked) {
          const lease = await sessions.claim(name, ...asked)
          const keep = lease.keep.bind(lease)
          return Object.assign(lease, {
            async keep(entry: SessionEntry) {
              await keep(entry)
              // The entry names the warm session: this is the last step before the caller has its turn.
              if (isWarmName(String(entry.handle['name']))) await sessions.expire(name)
            },
          })
        },
      },
    )
    one.backend.prewarm?.()
    await ready(one.events, 1)
    const sandbox = await one.open({ reuse: 'session', session })
    expect(sandbox.warm).toBe(true)
    const before = at.double.calls.length
    await expect(printed(sandbox, python('print("ran")'))).rejects.toMatchObject({ code: 'sandbox_lost' })
    const calls = at.double.calls.slice(before).map(({ operation }) => operation)
    expect(calls).not.toContain('InvokeCodeInterpreter')
    await sandbox[Symbol.asyncDispose]()
  })

  it('do not exist by default, nor with a maximum of zero', async () => {
    const before = at.double.sessions.started
    for (const { backend, open, events } of [worker(), worker({ warm_sessions: 0 })]) {
      backend.prewarm?.()
      const sandbox = await open()
      expect([sandbox.warm, events]).toEqual([false, []])
    }
    expect(at.double.sessions.started - before).toBe(2)
  })

  it('stay within their maximum: the least recently used interpreter loses its session', async () => {
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

  it('are replaced when they are too old', async () => {
    const { owner, backend, events } = worker({ warm_sessions: 1, warm_max_age_ms: 1000 })
    backend.prewarm?.()
    await ready(events, 2)
    const ofOurs = (): Session[] =>
      at.double.sessions.of(IDS['internal-only']).filter(({ name }) => name?.includes(`${owner}-warm_`))
    await vi.waitFor(() => expect(ofOurs().map(({ ended }) => ended)).toContain('stopped'), AT_MOST)
    expect(events).toContainEqual({ type: 'dropped', backend: 'agentcore', why: 'age' })
  })

  it('are not used if they died or would end too early for the program', async () => {
    const { owner, backend, open, events } = worker({ warm_sessions: 1, call_max_ms: 300_000 })
    backend.prewarm?.()
    await ready(events, 1)
    const long = { ...jobSpec(FLEET, python('')).limits, hard_timeout_ms: 900_000 }
    expect((await open({ limits: long })).warm).toBe(false)
    const [first] = waiting(owner)
    await first?.end('expired')
    const sandbox = await open()
    expect([sandbox.warm, await printed(sandbox, python('print("ran")'))]).toEqual([false, 'ran\n'])
    await ready(events, 2)
  })

  it('cost an execution only its own start if they cannot be started', async () => {
    const { open, events } = worker({ warm_sessions: 1 })
    const start = { operation: 'StartCodeInterpreterSession' } as const
    // The first start is that of the warm session.
    at.double.fault({ ...start, kind: 'http', error: 'ServiceQuotaExceededException', match: '-warm_' })
    const sandbox = await open()
    expect(await printed(sandbox, python('print("ran")'))).toBe('ran\n')
    await vi.waitFor(() => expect(events.map(({ type }) => type)).toContain('warm_failed'), AT_MOST)
  })

  it.each<[string, boolean, Fault['operation'] | null, (said: string, calls: readonly string[]) => boolean]>([
    ['while sessions wait', true, null, () => at.double.sessions.running().length > 0],
    [
      'before it hears of its session',
      false,
      'StartCodeInterpreterSession',
      (_said, calls) => calls.includes('StartCodeInterpreterSession'),
    ],
    [
      'before its session is ready',
      false,
      'InvokeCodeInterpreter',
      (_said, calls) => calls.includes('InvokeCodeInterpreter'),
    ],
    ['while its program runs', false, null, (said) => said.includes('up')],
    [
      'before its program is done for',
      false,
      'StopCodeInterpreterSession',
      (_said, calls) => calls.includes('StopCodeInterpreterSession'),
    ],
  ])(
    'are stopped by another worker, like all others, if their worker is killed %s',
    async (what, waits, held, isThere) => {
      at.double.previews = true
      const dead = Promise.withResolvers<undefined>()
      if (held !== null) at.double.fault({ operation: held, kind: 'delay', until: dead.promise })
      const holds = what === 'while its program runs' ? 'import time\ntime.sleep(600)' : ''
      const program = python(`open("effect", "a").write("x")\nprint("up", flush=True)\n${holds}`)
      const spec = jobSpec(FLEET, program)
      const calls = at.double.calls.length
      const operations = (): string[] => at.double.calls.slice(calls).map(({ operation }) => operation)
      const given = at.settings({ interpreters: INTERNAL, warm_sessions: waits ? 1 : 0 })
      await killWorker({ settings: given, spec, waits }, (said) => isThere(said, operations()))
      dead.resolve(undefined)
      // Requests that the worker sent before its death may take effect afterwards.
      const made = (): Session[] =>
        at.double.sessions.of(IDS['internal-only']).filter(({ name }) => name?.includes(spec.owner))
      await vi.waitFor(() => expect(made()).toHaveLength(1), AT_MOST)
      expect(effectsIn(at.double.sessions.running())).toMatch(holds === '' ? /^x?$/ : /^x$/)
      const { backend: other } = worker()
      await vi.waitFor(async () => {
        await other.sweep(spec.owner)
        expect(at.double.sessions.running()).toEqual([])
      }, AT_MOST)
      expect(await other.owners()).not.toContain(spec.owner)
    },
  )
})
