/** What only the AgentCore backend can do wrong: above all, a program runs once or not at all, whatever happens to its call. */
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import {
  BOUNDS,
  DEFAULT_LIMITS,
  type Exit,
  type Program,
  type Sandbox,
  type SandboxSpec,
} from '@cofferdam/contract'
import { testRedis, type TestServer } from '@cofferdam/embedded/testing'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  startAgentcoreDouble,
  type AgentcoreDouble,
} from '../../../infra/doubles/agentcore/agentcore-double.ts'
import type { Fault } from '../../../infra/doubles/agentcore/faults.ts'
import { missing, NODE } from '../../../infra/doubles/jail.ts'
import { createAgentcoreBackend } from '../src/agentcore/index.ts'
import type { BackendDeps } from '../src/deps.ts'
import { jobSpec, python } from './remote-run.ts'

const why = missing()
/** A busy machine takes its time; nothing here waits for it to pass. */
const AT_MOST = { timeout: 20_000 }
const SECRETS = {
  accessKeyId: 'AKIACANARYCANARY0001',
  secretAccessKey: 'canary/secret+of/the/worker/0123456789abcd',
}
const IDS = { 'default-public': 'public-0123456789', 'internal-only': 'internal-0123456789' }
/** Leaves one mark for each time that it runs. */
const MARK = python('open("effect", "a").write("x")\nprint("done")')
const SAME_IN = {
  javascript: `require('node:fs').appendFileSync('effect', 'x'); console.log('done')`,
  bash: 'printf x >> effect; echo done',
}

describe.skipIf(why !== null && process.env['COFFERDAM_REQUIRE'] !== 'all')(`agentcore ${why ?? ''}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-agentcore-'))
  const keys = join(folder, 'credentials')
  const logged: unknown[] = []
  const log = (fields: object, message: string): void => void logged.push(fields, message)
  const logger = { debug: log, info: log, warn: log }
  let double: AgentcoreDouble
  let server: TestServer
  const opened: Sandbox[] = []
  const backends: ReturnType<typeof createAgentcoreBackend>[] = []

  beforeAll(async () => {
    writeFileSync(
      keys,
      `[other]\naws_access_key_id = none\n[default]\naws_access_key_id = ${SECRETS.accessKeyId}\naws_secret_access_key=${SECRETS.secretAccessKey}\n`,
    )
    double = await startAgentcoreDouble({ ratePerSecond: 1000, secrets: SECRETS })
    server = await testRedis()
  })
  beforeEach(() => {
    double.fault()
  })
  afterEach(async () => {
    double.fault()
    await Promise.all(opened.splice(0).map((sandbox) => sandbox[Symbol.asyncDispose]()))
    for (const backend of backends.splice(0)) await backend[Symbol.asyncDispose]()
    expect(
      double.sessions.running().map(({ name }) => name),
      'left at the service',
    ).toEqual([])
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
    await server.stop()
    rmSync(folder, { recursive: true })
  })

  function backend(config: object = {}, deps: BackendDeps = {}): ReturnType<typeof createAgentcoreBackend> {
    const made = createAgentcoreBackend(
      {
        region: 'eu-central-1',
        endpoint: double.origin,
        credentials_file: keys,
        interpreters: IDS,
        calls_per_second: 1000,
        node: NODE,
        ...config,
      },
      { logger, ...deps },
    )
    backends.push(made)
    return made
  }

  const spec = (program: Program, change: Partial<SandboxSpec> = {}): SandboxSpec => ({
    ...jobSpec('aceaceaceace', program),
    ...change,
  })
  async function open(program: Program, change: Partial<SandboxSpec> = {}, by = backend()): Promise<Sandbox> {
    const sandbox = await by.open(spec(program, change), AbortSignal.timeout(30_000))
    opened.push(sandbox)
    return sandbox
  }
  async function run(
    sandbox: Sandbox,
    program: Program,
    signal = AbortSignal.timeout(30_000),
  ): Promise<{ exit: Exit; stdout: string; stderr: string }> {
    const said = { stdout: '', stderr: '' }
    const exit = await sandbox.run(program, {
      onOutput: (stream, chunk) => void (said[stream] += Buffer.from(chunk).toString()),
      maxOutputBytes: { stdout: 1 << 20, stderr: 1 << 20 },
      signal,
    })
    return { exit, ...said }
  }
  /** The session's own disk, seen from the host. */
  const marks = (sandbox: Sandbox): string => {
    const root = dirname(
      dirname(double.sessions.byId(String(sandbox.ref.handle['session']))?.jail.socket ?? ''),
    )
    return globSync(['home', '.cofferdam-*', 'work', 'effect'].join('/'), { cwd: root })
      .map((path) => readFileSync(join(root, path), 'utf8'))
      .join('|')
  }
  const invoke = (kind: Fault['kind'], more: Partial<Fault> = {}): Fault => ({
    operation: 'InvokeCodeInterpreter',
    kind,
    ...more,
  })

  describe('a program whose call fails', () => {
    it.each<[string, Fault]>([
      ['is throttled twice', invoke('http', { error: 'ThrottlingException', times: 2 })],
      ['is throttled by its first frame', invoke('exception', { error: 'throttlingException' })],
      ['fails at the service before it began', invoke('http', { error: 'InternalServerException' })],
      ['loses its connection before it ran', invoke('cut-before')],
      ['loses its connection after it ran', invoke('cut-after')],
      ['fails by its first frame', invoke('exception', { error: 'internalServerException' })],
      ['meets a conflict', invoke('http', { error: 'ConflictException' })],
      ['is cut within a frame', invoke('truncated')],
      ['gets an empty stream', invoke('empty')],
      ['gets an exception behind an event', invoke('exception', { after: 1 })],
      ['gets an error frame behind two events', invoke('error-frame', { error: 'Whatever', after: 2 })],
      ['is refused by its first frame', invoke('exception', { error: 'validationException' })],
      [
        'has run when its first frame refuses it',
        invoke('exception', { error: 'validationException', runs: true }),
      ],
      [
        'has run when its first frame throttles it',
        invoke('exception', { error: 'throttlingException', runs: true, times: 8 }),
      ],
      [
        'has run when its first frame knows no session',
        invoke('exception', { error: 'resourceNotFoundException', runs: true }),
      ],
      ['is refused behind an event', invoke('exception', { error: 'accessDeniedException', after: 1 })],
      ['gets its result and no end of the stream', invoke('endless')],
      ['gets an exception that no model has', invoke('exception', { error: 'newException', after: 1 })],
      ['gets its result twice', invoke('duplicate')],
      ['gets its result growing', invoke('growing')],
      ['gets its result in two parts', invoke('split')],
      ['gets an event of an unknown type', invoke('unknown-event')],
      ['comes late', invoke('delay', { ms: 200 })],
    ])('runs once and tells how it went when it %s', async (_what, fault) => {
      const sandbox = await open(MARK)
      double.fault(fault)
      const { exit, stdout } = await run(sandbox, MARK)
      expect({ code: exit.exitCode, stdout, marks: marks(sandbox) }).toEqual({
        code: 0,
        stdout: 'done\n',
        marks: 'x',
      })
      expect(double.faultsLeft).toEqual([])
    })

    it('runs once and tells how it went when the question for its outcome loses two answers as well', async () => {
      const sandbox = await open(MARK)
      double.fault(invoke('cut-after'), invoke('http', { error: 'InternalServerException' }), invoke('empty'))
      expect(await run(sandbox, MARK)).toMatchObject({ exit: { exitCode: 0 }, stdout: 'done\n' })
      expect([marks(sandbox), double.faultsLeft]).toEqual(['x', []])
    })

    it.each<[string, Fault]>([
      ['ThrottlingException', invoke('http', { error: 'ThrottlingException', times: 9 })],
      ['AccessDeniedException', invoke('http', { error: 'AccessDeniedException' })],
      ['ValidationException', invoke('http', { error: 'ValidationException' })],
      ['ServiceQuotaExceededException', invoke('http', { error: 'ServiceQuotaExceededException' })],
    ])('did not run, and says so, when the service refuses it: %s', async (name, fault) => {
      const sandbox = await open(MARK)
      double.fault({ ...fault, message: 'not authorized on arn:aws:x' })
      await expect(run(sandbox, MARK)).rejects.toMatchObject({
        code: 'sandbox_lost',
        message: `AgentCore: ${name}: not authorized on arn:aws:x`,
        details: { reason: 'not_begun', class: name },
      })
      expect(marks(sandbox)).toBe('')
    })

    it.each<[string, string, Fault[]]>([
      [
        'not at all',
        'has no session any more',
        [invoke('http', { error: 'ResourceNotFoundException', times: 9 })],
      ],
      ['not at all', 'meets conflicts alone', [invoke('http', { error: 'ConflictException', times: 9 })]],
      ['not at all', 'never gets through', [invoke('cut-before', { times: 9 })]],
      ['once', 'gets no answer ever', [invoke('cut-after', { times: 9 })]],
      ['once', 'gets empty streams alone', [invoke('empty', { times: 9 })]],
      [
        'once',
        'gets one event and refusals',
        [
          invoke('exception', { error: 'validationException', after: 1 }),
          invoke('http', { error: 'AccessDeniedException' }),
        ],
      ],
    ])('runs %s, and is lost, when it %s', async (times, _what, faults) => {
      const sandbox = await open(MARK)
      double.fault(...faults)
      await expect(run(sandbox, MARK)).rejects.toMatchObject({ code: 'sandbox_lost' })
      expect(marks(sandbox)).toBe(times === 'once' ? 'x' : '')
    })

    it.each([
      ['javascript', 'cut-before'],
      ['javascript', 'cut-after'],
      ['bash', 'cut-after'],
      ['bash', 'empty'],
    ] as const)('runs once as a command too: %s, %s', async (language, kind) => {
      const program: Program = { type: 'script', language, source: SAME_IN[language] }
      const sandbox = await open(program)
      double.fault(invoke(kind, { tool: 'executeCommand' }))
      expect(await run(sandbox, program)).toMatchObject({ exit: { exitCode: 0 }, stdout: 'done\n' })
      expect(marks(sandbox)).toBe('x')
    })

    it.each<[string, Fault[]]>([
      ['nothing goes wrong', []],
      ['the answer to its start is lost', [invoke('cut-after', { tool: 'startCommandExecution' })]],
      ['its start never arrives', [invoke('cut-before', { tool: 'startCommandExecution' })]],
      ['a question for it fails', [invoke('http', { tool: 'getTask', error: 'InternalServerException' })]],
    ])('runs once in the background, above the bound of a call, when %s', async (_what, faults) => {
      const sandbox = await open(MARK, {}, backend({ call_max_ms: 1000 }))
      double.fault(...faults)
      expect(await run(sandbox, MARK)).toMatchObject({ exit: { exitCode: 0 }, stdout: 'done\n' })
      expect(marks(sandbox)).toBe('x')
      expect(double.calls.some(({ tool }) => tool === 'startCommandExecution')).toBe(true)
    })

    it('serves no second program after any of it', async () => {
      const { by, session } = await keeping()
      const first = await open(MARK, session, by)
      double.fault(invoke('cut-after'))
      await run(first, MARK)
      await first[Symbol.asyncDispose]()
      const second = await open(MARK, session, by)
      expect([second.session?.fresh, second.ref.handle['session'] === first.ref.handle['session']]).toEqual([
        true,
        false,
      ])
      second.retire?.()
    })
  })

  describe('a session', () => {
    it('is started once though the answer is lost, and lives a minute longer than its program may', async () => {
      const before = double.sessions.started
      double.fault({ operation: 'StartCodeInterpreterSession', kind: 'cut-after' })
      const sandbox = await open(MARK)
      expect(double.sessions.started - before).toBe(1)
      expect(double.sessions.byId(String(sandbox.ref.handle['session']))?.timeoutSeconds).toBe(
        Math.ceil(DEFAULT_LIMITS.hard_timeout_ms / 1000) + 60,
      )
    })

    it('leaves nothing when all answers to its start are lost', async () => {
      double.fault({ operation: 'StartCodeInterpreterSession', kind: 'cut-after', times: 3 })
      await expect(open(MARK)).rejects.toMatchObject({ code: 'backend_unavailable' })
    })

    it.each([
      ['ServiceQuotaExceededException', 'backend_unavailable'],
      ['AccessDeniedException', 'backend_unavailable'],
      ['ValidationException', 'sandbox_open_failed'],
    ])('that is refused by %s is %s, and its words are kept', async (error, code) => {
      double.fault({
        operation: 'StartCodeInterpreterSession',
        kind: 'http',
        error,
        message: 'not authorized on arn:aws:x',
      })
      await expect(open(MARK)).rejects.toMatchObject({
        code,
        message: expect.stringContaining('arn:aws:x') as string,
        details: { reason: `session_start:${error}` },
      })
    })

    it('that is not ready is stopped, and a fresh one is tried once', async () => {
      const before = double.sessions.started
      double.fault(invoke('empty'))
      expect(await run(await open(MARK), MARK)).toMatchObject({ stdout: 'done\n' })
      expect(double.sessions.started - before).toBe(2)
      double.fault(invoke('http', { error: 'ThrottlingException' }))
      await (await open(MARK))[Symbol.asyncDispose]()
      expect(double.sessions.started - before).toBe(3)
      double.fault(invoke('truncated', { times: 2 }))
      await expect(open(MARK)).rejects.toMatchObject({
        details: { reason: expect.stringMatching(/^readiness:/) as string },
      })
      expect(double.sessions.started - before).toBe(5)
    })

    it('belongs to its tenant’s interpreter; without one nothing is started, and one that is gone is forgotten', async () => {
      const forgotten: string[] = []
      const ids = new Map([['t internal-only', 'mine-0123456789']])
      const by = backend(
        { interpreters: {} },
        {
          interpreters: {
            find: async (tenant, environment) => ids.get(`${tenant} ${environment}`) ?? null,
            forget: async (_tenant, _environment, id) => void forgotten.push(id),
          },
        },
      )
      const sandbox = await open(MARK, {}, by)
      expect(sandbox.ref.handle['interpreter']).toBe('mine-0123456789')
      await expect(open(MARK, { network: 'public' }, by)).rejects.toMatchObject({
        code: 'interpreter_not_ready',
      })
      await expect(open(MARK, { tenantId: 'other' }, by)).rejects.toMatchObject({
        code: 'interpreter_not_ready',
      })
      await sandbox[Symbol.asyncDispose]()
      double.interpreters = new Set()
      await expect(open(MARK, {}, by)).rejects.toMatchObject({ code: 'interpreter_not_ready' })
      double.interpreters = null
      expect(forgotten).toEqual(['mine-0123456789'])
    })
  })

  describe('deadlines', () => {
    const limits = { ...DEFAULT_LIMITS, soft_timeout_ms: 2000, hard_timeout_ms: 4500 }

    it('end a program from inside at the soft one, and keep what it said', async () => {
      const program = python(
        'import time\nprint("up", flush=True)\ntry:\n    time.sleep(60)\nfinally:\n    print("cleaned")',
      )
      const { exit, stdout } = await run(await open(program, { limits }), program)
      expect(stdout).toBe('up\ncleaned\n')
      expect(exit.exitCode).not.toBe(0)
    })

    it('kill one that ignores it, before the hard one', async () => {
      const program = python(
        'import signal, time\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\nprint("up", flush=True)\ntime.sleep(60)',
      )
      const { exit, stdout } = await run(await open(program, { limits }), program)
      expect({ signal: exit.signal, stdout }).toEqual({ signal: 'SIGKILL', stdout: 'up\n' })
    })

    it('of the session itself end what runs in it, and are told as the reason', async () => {
      const program = python('import time\ntime.sleep(60)')
      const sandbox = await open(program)
      const before = double.calls.length
      const ended = expect(run(sandbox, program)).rejects.toMatchObject({
        code: 'sandbox_lost',
        details: { reason: 'session_timeout' },
      })
      await expect.poll(() => double.calls.length, AT_MOST).toBeGreaterThan(before)
      await double.sessions.byId(String(sandbox.ref.handle['session']))?.end('expired')
      await ended
    })

    it('of a session that somebody stops are not the program’s: it ran, and is lost', async () => {
      const program = python('open("effect", "a").write("x")\nimport time\ntime.sleep(60)')
      const sandbox = await open(program)
      const ended = expect(run(sandbox, program)).rejects.toMatchObject({
        code: 'sandbox_lost',
        details: { reason: 'session_lost' },
      })
      await expect.poll(() => marks(sandbox), AT_MOST).toBe('x')
      await double.sessions.byId(String(sandbox.ref.handle['session']))?.end('stopped')
      await ended
    })

    it('stop the session when nobody waits any more', async () => {
      const program = python('import time\ntime.sleep(60)')
      const sandbox = await open(program)
      const stop = new AbortController()
      const running = run(sandbox, program, stop.signal)
      const reason = new Error('the hard deadline')
      const ended = expect(running).rejects.toBe(reason)
      await expect
        .poll(() => double.calls.filter(({ tool }) => tool === 'executeCode').length, AT_MOST)
        .toBeGreaterThan(0)
      stop.abort(reason)
      await ended
      await expect.poll(() => double.sessions.running(), AT_MOST).toEqual([])
    })
  })

  /** A worker that keeps sessions, on a Redis connection of its own. */
  async function keeping(leaseMs?: number) {
    const redis = connectRedis(server.url, 'worker')
    const registry = createSessionRegistry({ redis, ...(leaseMs === undefined ? {} : { leaseMs }) })
    const by = backend({}, { sessions: registry })
    const dispose = by[Symbol.asyncDispose].bind(by)
    by[Symbol.asyncDispose] = async () => {
      await dispose()
      redis.disconnect()
    }
    const key = Math.random().toString(36).slice(2)
    const session = {
      reuse: 'session',
      session: { key, scope: 'interpreter', idleMs: null },
    } as const satisfies Partial<SandboxSpec>
    return { by, session, redis, registry, key }
  }

  describe('a session that is kept', () => {
    it('is attached to by another worker, and ended by the reaper’s call', async () => {
      const [one, other] = [await keeping(), await keeping()]
      const first = await open(MARK, one.session, one.by)
      await run(first, python('kept = 41'))
      await first[Symbol.asyncDispose]()
      const second = await open(MARK, one.session, other.by)
      expect((await run(second, python('print(kept + 1)'))).stdout).toBe('42\n')
      await second[Symbol.asyncDispose]()
      const name = { tenantId: 't', backend: 'agentcore', key: one.key }
      const entry = await other.registry.find(name)
      expect(JSON.stringify(entry)).not.toContain('canary')
      if (entry === null) return expect.fail('it is not in the registry')
      expect(await other.by.endSession?.(name, entry, AbortSignal.timeout(20_000))).toBe(true)
    })

    it('waits as long as it was asked to, also after a look at its files that says nothing of that', async () => {
      const { by, session, registry, key } = await keeping()
      const waits = { ...session, session: { ...session.session, idleMs: 3_000_000 } }
      await (await open(MARK, waits, by))[Symbol.asyncDispose]()
      const looking = await open(MARK, { ...session, program: { type: 'files', op: 'list' } }, by)
      expect(looking.session?.fresh).toBe(false)
      await looking[Symbol.asyncDispose]()
      const name = { tenantId: 't', backend: 'agentcore', key }
      const entry = await registry.find(name)
      if (entry === null) return expect.fail('it is not in the registry')
      expect(entry.idleAtMs - entry.usedAtMs).toBe(3_000_000)
      expect(await by.endSession?.(name, entry, AbortSignal.timeout(20_000))).toBe(true)
    })

    it('whose interpreter dies, or whose program had to be stopped, is not used again', async () => {
      const { by, session } = await keeping()
      const limits = { ...DEFAULT_LIMITS, soft_timeout_ms: 2000, hard_timeout_ms: 10_000 }
      for (const [source, exitCode, oomKills] of [
        // Of itself nobody does that but the kernel, for memory.
        ['import os, signal\nos.kill(os.getpid(), signal.SIGKILL)', 137, 1],
        ['import time\ntime.sleep(60)', 130, 0],
      ] as const) {
        const sandbox = await open(MARK, { ...session, limits }, by)
        expect(sandbox.session?.fresh).toBe(true)
        expect((await run(sandbox, python(source))).exit).toMatchObject({ exitCode, oomKills })
        await sandbox[Symbol.asyncDispose]()
      }
    })

    it('is given back when it cannot be written down for the next one', async () => {
      const [one, other] = [await keeping(3000), await keeping()]
      const sandbox = await open(MARK, one.session, one.by)
      // Redis leaves out the deadline alone: the lease would be renewed for as long as the worker lives.
      const send = one.redis.sendCommand.bind(one.redis)
      one.redis.sendCommand = (command, stream) =>
        command.name === 'zadd' ? command.promise : send(command, stream)
      await sandbox[Symbol.asyncDispose]()
      opened.splice(opened.indexOf(sandbox), 1)
      const name = { tenantId: 't', backend: 'agentcore', key: one.key }
      expect(await other.registry.find(name)).toMatchObject({ holder: null })
      const second = await open(MARK, one.session, other.by)
      expect(second.session?.fresh).toBe(true)
      second.retire?.()
    })

    it('stays known by its name while nobody knows whether it was begun', async () => {
      const { by, session, key, registry } = await keeping()
      const name = { tenantId: 't', backend: 'agentcore', key }
      double.fault(
        { operation: 'StartCodeInterpreterSession', kind: 'cut-after', times: 3 },
        { operation: 'ListCodeInterpreterSessions', kind: 'cut-before', times: 6 },
      )
      await expect(open(MARK, session, by)).rejects.toMatchObject({ code: 'backend_unavailable' })
      expect(double.sessions.running()).toHaveLength(1)
      double.fault()
      const entry = await registry.find(name)
      if (entry === null) return expect.fail('it is forgotten, and paid for until its time ends')
      expect(await by.endSession?.(name, entry, AbortSignal.timeout(20_000))).toBe(true)
      // Where its end is known, nothing is left of it.
      double.fault({ operation: 'StartCodeInterpreterSession', kind: 'cut-after', times: 3 })
      await expect(
        open(MARK, { ...session, session: { ...session.session, key: `${key}2` } }, by),
      ).rejects.toThrow()
      expect(await registry.find({ ...name, key: `${key}2` })).toBeNull()
    })

    it.each([
      ['the rate', 'ThrottlingException', 4],
      ['the rights', 'AccessDeniedException', 1],
      ['keys that are over', 'ExpiredTokenException', 1],
    ])('outlives the refusal of its next execution for %s', async (_what, error, times) => {
      const { by, session } = await keeping()
      const first = await open(MARK, session, by)
      await first[Symbol.asyncDispose]()
      double.fault(invoke('http', { error, times }))
      await expect(open(MARK, session, by)).rejects.toMatchObject({ code: 'backend_unavailable' })
      expect(double.faultsLeft).toEqual([])
      const second = await open(MARK, session, by)
      expect(second.session?.fresh).toBe(false)
      second.retire?.()
    })

    it('outlives a lost answer to the question whether it is alive', async () => {
      const { by, session } = await keeping()
      await (await open(MARK, session, by))[Symbol.asyncDispose]()
      double.fault(invoke('http', { error: 'InternalServerException' }), invoke('cut-after'))
      const second = await open(MARK, session, by)
      expect([second.session?.fresh, double.faultsLeft]).toEqual([false, []])
      second.retire?.()
    })

    it('whose interpreter is gone went with it, also where nobody learnt its id', async () => {
      const { by, session, key, registry } = await keeping()
      const name = { tenantId: 't', backend: 'agentcore', key }
      const sandbox = await open(MARK, session, by)
      const entry = await registry.find(name)
      if (entry === null) return expect.fail('it is not in the registry')
      expect(entry.handle).not.toHaveProperty('session')
      double.interpreters = new Set()
      await expect(
        by.endSession?.(name, entry, AbortSignal.timeout(20_000)).finally(() => {
          double.interpreters = null
        }),
      ).resolves.toBe(false)
      sandbox.retire?.()
    })

    it('of a worker that died in its turn is stopped, not attached to', async () => {
      const [dying, other] = [await keeping(3000), await keeping()]
      const sandbox = await open(MARK, dying.session, dying.by)
      dying.redis.disconnect()
      const second = await open(MARK, dying.session, other.by)
      expect(second.session?.fresh).toBe(true)
      expect(double.sessions.byId(String(sandbox.ref.handle['session']))?.ended).toBe('stopped')
      second.retire?.()
    })
  })

  describe('secrets', () => {
    const LOOK = `
import glob, json, os
def text(path):
    try:
        return open(path, 'rb').read().decode('latin1')
    except OSError:
        return ''
print(json.dumps([dict(os.environ), [text(path) for path in glob.glob('/proc/[0-9]*/environ')]]))
print([text(path) for path in glob.glob('/home/user/.cofferdam-*/**', recursive=True)])`

    it('of the worker appear in no sandbox, ref, error or log', async () => {
      const program = python(LOOK)
      const sandbox = await open(program)
      const { stdout } = await run(sandbox, program)
      expect(stdout).toContain('PATH')
      double.fault({
        operation: 'StartCodeInterpreterSession',
        kind: 'http',
        error: 'AccessDeniedException',
        message: `key ${SECRETS.accessKeyId}`,
      })
      const refused = await open(program).catch((error: unknown) => error)
      double.fault(invoke('cut-after', { times: 9 }))
      const lost = await run(await open(program).catch(() => sandbox), program).catch(
        (error: unknown) => error,
      )
      const told = [refused, lost].map((error) => [
        String(error),
        JSON.stringify((error as { details?: unknown }).details),
      ])
      const bodies = double.calls.map(({ text }) => text)
      const all = JSON.stringify([stdout, sandbox.ref, told, logged, bodies], (_name, value: unknown) =>
        value instanceof Error ? [value.message, value.stack] : value,
      )
      expect(all).not.toContain(SECRETS.secretAccessKey)
      expect(JSON.stringify([stdout, sandbox.ref, told, bodies])).not.toContain(SECRETS.accessKeyId)
    })

    it('of a request are redacted before they leave the sandbox, in every form and past every wrapper', async () => {
      const token = 'a-secret-of-the-tenant-99'
      const program = python(`
import base64, os, subprocess, sys
token = os.environ['API_TOKEN']
print(token, base64.b64encode(token.encode()).decode(), token.encode().hex())
sys.stdout.flush()
os.write(1, token.encode() + b'\\n')
subprocess.run(['sh', '-c', 'echo $API_TOKEN >&2'])
print('ghp_' + 'a1' * 18)
`)
      const sandbox = await open(program, { env: { API_TOKEN: token } })
      const { stdout, stderr } = await run(sandbox, program)
      expect(stdout).toBe('<redacted> <redacted> <redacted>\n<redacted>\n<redacted>\n')
      expect(stderr).toBe('<redacted>\n')
    })
  })

  it('leaves no file with a program’s variables in a session that the next execution sees', async () => {
    const { by, session } = await keeping()
    const long: Program = {
      type: 'script',
      language: 'bash',
      source: `: ${'x'.repeat(110 * 1024)}\necho done`,
    }
    const first = await open(long, { ...session, env: { API_TOKEN: 'a-secret-of-the-tenant-98' } }, by)
    expect((await run(first, long)).stdout).toBe('done\n')
    expect(double.calls.some(({ tool, text }) => tool === 'writeFiles' && text.includes('.sh'))).toBe(true)
    await first[Symbol.asyncDispose]()
    const second = await open(MARK, session, by)
    expect(second.session?.fresh).toBe(false)
    const found = await run(second, python('import glob\nprint(glob.glob("/home/user/cofferdam-*"))'))
    expect(found.stdout).toBe('[]\n')
    second.retire?.()
  })

  it('writes and reads files although answers are lost', async () => {
    const sandbox = await open(MARK)
    await sandbox.write([{ path: 'a', bytes: Buffer.from('bytes') }])
    double.fault(invoke('cut-after', { tool: 'writeFiles' }), invoke('cut-before', { tool: 'writeFiles' }))
    expect((await run(sandbox, MARK)).stdout).toBe('done\n')
    double.fault(invoke('cut-after'), invoke('empty'))
    expect(Buffer.from(await sandbox.read('a', 10)).toString()).toBe('bytes')
    expect(double.faultsLeft).toEqual([])
  })

  it('carries the most that a request may bring, in one call', async () => {
    const half = Buffer.alloc(BOUNDS.fileBytes, 'ab')
    const before = double.calls.length
    const sandbox = await open(MARK)
    await sandbox.write([
      { path: 'one', bytes: half },
      { path: 'two', bytes: half },
    ])
    expect(2 * BOUNDS.fileBytes).toBe(BOUNDS.filesTotalBytes)
    const back = await sandbox.read('two', BOUNDS.artifactBytes)
    expect(Buffer.compare(half, back)).toBe(0)
    expect(double.calls.slice(before).filter(({ tool }) => tool === 'writeFiles').length).toBe(1)
  })

  it('has its calls for an execution under the span that the program has', async () => {
    const span = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const program = python('import os\nprint(os.environ["TRACEPARENT"])')
    const before = double.calls.length
    for (const TRACEPARENT of [span, 'no span\r\nx: y']) {
      const sandbox = await open(program, { env: { TRACEPARENT } })
      expect((await run(sandbox, program)).exit.exitCode).toBe(0)
    }
    const told = double.calls.slice(before).filter(({ traceparent }) => traceparent !== '')
    expect(told.map(({ operation, traceparent }) => [operation, traceparent])).toEqual([
      ['StartCodeInterpreterSession', span],
      ['InvokeCodeInterpreter', span],
    ])
  })

  it('says what is wrong with its credentials file', async () => {
    writeFileSync(join(folder, 'wrong'), '[default]\nnothing = canary-that-stays\n')
    for (const [file, words] of [
      ['absent', 'cannot be read'],
      ['wrong', 'holds no keys'],
    ] as const) {
      const probed = await backend({ credentials_file: join(folder, file) }).probe(
        AbortSignal.timeout(20_000),
      )
      expect(probed).toMatchObject({ ok: false, why: expect.stringContaining(words) as string })
      expect(JSON.stringify(probed)).not.toContain('canary')
    }
  })
})
