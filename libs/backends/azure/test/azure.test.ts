/** Tests of the Azure backend alone: lost answers, replaced sessions, dialects, secrets, leases. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Backend,
  DEFAULT_LIMITS,
  type Exit,
  MAX_LIMITS,
  type Program,
  type Sandbox,
  type SandboxSpec,
  type SessionEntry,
} from '@cofferdam/contract'
import { isLongTier, needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { NO_FAULTS, type Faults } from '../double/faults.ts'
import { azureConfigSchema } from '../src/config.ts'
import { createCredentials } from '../src/credentials.ts'
import { hashOf } from '../src/identifier.ts'
import { createAzureBackend } from '../src/index.ts'
import { createPoolApi } from '../src/pool-api.ts'
import { createSessionsAtPool } from '../src/sessions-at-pool.ts'
import { createTokens } from '../src/tokens.ts'
import { SECRET, startAzurePlaces, type AzurePlaces } from './places.ts'
import { redisSessions, type TestSessions, jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const FLEET = 'a2a2a2a2a2a2'

needs('bwrap').describe('azure', () => {
  let places: AzurePlaces
  let sessions: TestSessions
  let interpreter: Backend
  let container: Backend

  beforeAll(async () => {
    places = await startAzurePlaces()
    sessions = await redisSessions()
    interpreter = createAzureBackend(places.settings('python'))
    container = createAzureBackend(places.settings('custom'))
  })
  afterEach(async () => {
    places.double.fault(NO_FAULTS)
    await sessions.clear()
    // Dispose of the backends. Otherwise they would try again to end this test's sessions during the next
    // test.
    for (const backend of [interpreter, container]) await backend[Symbol.asyncDispose]()
    for (const pool of ['python', 'shell', 'custom'])
      expect(await places.double.pool(pool).list(), 'sessions that are left').toEqual([])
  })
  afterAll(async () => {
    await places[Symbol.asyncDispose]()
    await sessions[Symbol.asyncDispose]()
  })

  const open = (backend: Backend, program: Program, more: Partial<SandboxSpec> = {}): Promise<Sandbox> =>
    backend.open({ ...jobSpec(FLEET, program), ...more }, AbortSignal.timeout(30_000))

  async function ran(
    backend: Backend,
    program: Program,
    stdin?: Uint8Array,
  ): Promise<{ exit: Exit; stdout: string; stderr: string }> {
    const out = { stdout: '', stderr: '' }
    await using sandbox = await open(backend, program)
    const exit = await sandbox.run(program, {
      onOutput: (stream, chunk) => void (out[stream] += Buffer.from(chunk).toString('latin1')),
      maxOutputBytes: { stdout: 1 << 22, stderr: 1 << 22 },
      signal: AbortSignal.timeout(30_000),
      ...(stdin === undefined ? {} : { stdin }),
    })
    return { exit, ...out }
  }

  describe('an interpreter pool with a new agent per execution', () => {
    it('reports a program’s end, value and whole output, even above the service’s limit', async () => {
      const { exit, stdout, stderr } = await ran(
        interpreter,
        python("import sys\nprint('x' * 400_000)\nprint('e' * 5000, file=sys.stderr)\n[1, 'ü']"),
      )
      expect(exit).toMatchObject({ exitCode: 0, signal: null, valueJson: expect.any(String) as string })
      expect(JSON.parse(exit.valueJson ?? '')).toEqual([1, 'ü'])
      expect([stdout.length, stderr.length]).toEqual([400_001, 5001])
      const killed = await ran(interpreter, python('import os\nos.kill(os.getpid(), 9)'))
      expect(killed.exit).toMatchObject({ exitCode: null, signal: 'SIGKILL' })
    })

    it('passes input and files to a program, and returns its files', async () => {
      const program = python(
        "import sys\nopen('out/b.bin', 'wb').write(open('a.bin', 'rb').read() + sys.stdin.buffer.read())",
      )
      const big = Buffer.alloc(300_000, 7)
      await using sandbox = await open(interpreter, program)
      await sandbox.write([
        { path: 'a.bin', bytes: big },
        { path: 'out/x', bytes: Buffer.from('x') },
      ])
      const exit = await sandbox.run(program, {
        onOutput: () => undefined,
        maxOutputBytes: { stdout: 1000, stderr: 1000 },
        signal: AbortSignal.timeout(30_000),
        stdin: Buffer.from('end'),
      })
      expect(exit.exitCode).toBe(0)
      expect(await sandbox.list(['out/*.bin'], 10)).toEqual([{ path: 'out/b.bin', size: 300_003 }])
      expect(
        Buffer.from(await sandbox.read('out/b.bin', 1 << 20))
          .subarray(-4)
          .toString('latin1'),
      ).toBe('\x07end')
    })

    it('runs on a shell pool too, where the service’s status has another meaning', async () => {
      const shell = createAzureBackend(places.settings('shell'))
      const { exit, stdout } = await ran(shell, { type: 'command', shell: 'echo out; exit 3' })
      expect([exit.exitCode, stdout]).toEqual([3, 'out\n'])
    })

    it('uploads the compiler for a TypeScript program', async () => {
      const typed = createAzureBackend(places.settings('python', { languages: ['typescript'] }))
      const source = 'enum Colour { red = 3 }\nconsole.log(Colour.red)'
      const { stdout } = await ran(typed, { type: 'script', language: 'typescript', source })
      expect(stdout).toBe('3\n')
    })

    it('ends a program at its soft deadline from inside the busy session', async () => {
      const program = python(
        "import time\nprint('up', flush=True)\ntry:\n  time.sleep(60)\nexcept KeyboardInterrupt:\n  print('cleaned')\n  raise SystemExit(7)",
      )
      const limits = { ...jobSpec(FLEET, program).limits, soft_timeout_ms: 4000, hard_timeout_ms: 16_000 }
      await using sandbox = await open(interpreter, program, { limits })
      expect(await printed(sandbox, program)).toBe('up\ncleaned\n')
    })

    it('refuses requests that it does not support there', async () => {
      expect(interpreter.capabilities).toMatchObject({
        streaming: false,
        interrupt: false,
        sessions: [],
        network: ['none'],
        maxMs: 215_000,
      })
      await expect(open(interpreter, python('1'), { network: 'public' })).rejects.toMatchObject({
        code: 'capability_missing',
      })
    })

    it.each(['old', 'new'] as const)(
      'learns that the pool supports only the %s dialect, and uses it from then on',
      async (dialect) => {
        const plane = places.double.codePlane('python')
        plane.dialects = [dialect]
        const backend = createAzureBackend(places.settings('python'))
        const { stdout } = await ran(backend, python("print('y' * 9000)"))
        expect(stdout.length).toBe(9001)
        const before = places.double.requests.length
        await ran(backend, python('1'))
        const asked = places.double.requests
          .slice(before)
          .filter((line) => /\/(executions|code\/execute)\?/.test(line))
        expect(
          asked.every((line) => line.includes(dialect === 'old' ? '/code/execute' : '/executions')),
        ).toBe(true)
        plane.dialects = ['oldest', 'old', 'new']
      },
    )
  })

  needs('root').it.each(['python', 'custom'] as const)(
    'runs programs as another user with a writable work directory if sessions of a %s pool are root’s',
    async (kind) => {
      const endpoint = await places.double.addPool({
        name: 'root',
        kind: kind === 'custom' ? 'CustomContainer' : 'PythonLTS',
        user: 'root',
      })
      const backend = createAzureBackend(
        places.settings(
          kind,
          kind === 'custom' ? { container_endpoint: endpoint } : { interpreter_endpoint: endpoint },
        ),
      )
      const program = python(
        "import os\nopen('n', 'w').write('x')\nprint(os.getuid(), open('given').read(), flush=True)\nraise SystemExit(3)",
      )
      await using sandbox = await open(backend, program)
      await sandbox.write([{ path: 'given', bytes: Buffer.from('file') }])
      const found = await places.double.pool('root').list()
      expect(found.map(({ identifier }) => hashOf(identifier))).toEqual([sandbox.ref.vendorRef])
      expect(await printed(sandbox, program)).toBe('65534 file\n')
      expect(Buffer.from(await sandbox.read('n', 10)).toString()).toBe('x')
      await sandbox[Symbol.asyncDispose]()
      await places.double.removePool('root')
    },
  )

  /** Prints how often it has run in this session before. */
  const counting = python(
    "n = len(open('n').read()) if __import__('os').path.exists('n') else 0\nopen('n', 'a').write('x')\nprint('run', n)",
  )

  /**
   * An execution in an interpreter pool needs many calls, so only the long tier tries the faults in
   * interpreter pools too.
   */
  const POOLS: readonly ('interpreter' | 'container')[] = isLongTier()
    ? ['interpreter', 'container']
    : ['container']
  const FAULTS: [string, Partial<Faults>][] = [
    ['its answer is lost', { drop_after: 1 }],
    ['its request is lost', { drop_before: 1 }],
    ['the pool throttles', { throttle: 1, retry_after: 0 }],
    ['the pool throttles and does not say for how long', { throttle: 1, retry_after: null }],
    ['half of an answer comes as if it were all', { halve_after: 1 }],
    ['the pool fails', { fail: 1 }],
    ['a proxy’s page comes in place of its answer', { page_after: 1 }],
    ['a proxy gives up waiting for it', { page_after: 1, page_status: 408 }],
    ['the output is cut', { truncate_executions: 1, truncate_to: 20 }],
  ]
  it.each(FAULTS.flatMap((fault) => POOLS.map((kind) => [kind, ...fault] as const)))(
    '%s: runs a program exactly once when %s',
    async (kind, _words, faults) => {
      const backend = kind === 'interpreter' ? interpreter : container
      await using sandbox = await open(backend, counting)
      await sandbox.list(['*'], 1)
      // In a container, the poll is already in flight, so the fault targets the call that sends the program.
      places.double.fault({ ...faults, drop_path: kind === 'container' ? '/v1/send' : '/executions' })
      expect(await printed(sandbox, counting)).toBe('run 0\n')
      places.double.fault(NO_FAULTS)
      expect(Buffer.from(await sandbox.read('n', 10)).toString()).toBe('x')
    },
  )

  it.each(POOLS)('%s: gives up an expired session, and does not run its program elsewhere', async (kind) => {
    const backend = kind === 'interpreter' ? interpreter : container
    await using sandbox = await open(backend, counting)
    await sandbox.list(['*'], 1)
    places.double.fault({ expire: 1, drop_path: kind === 'container' ? '/v1/send' : '/executions' })
    await expect(printed(sandbox, counting)).rejects.toMatchObject({ code: 'sandbox_lost' })
  })

  it('collects a file of the largest size', async () => {
    const size = MAX_LIMITS.artifact_bytes
    const program = python(`open("large", "wb").truncate(${size})`)
    const limits = { ...DEFAULT_LIMITS, disk_mib: 256 }
    await using sandbox = await open(interpreter, program, { limits })
    await printed(sandbox, program)
    expect(await sandbox.read('large', size)).toHaveLength(size)
  })

  it('repeats a download whose answer is lost', async () => {
    const size = 2 << 20
    const program = python(`open("large", "wb").truncate(${size})`)
    await using sandbox = await open(interpreter, program)
    await printed(sandbox, program)
    const { requests } = places.double
    const downloads = async (drop_path: string): Promise<number> => {
      const before = requests.length
      places.double.fault({ drop_after: 1, drop_path })
      expect(await sandbox.read('large', size)).toHaveLength(size)
      return requests.slice(before).filter((call) => /^GET .*\/files\/.*content/.test(call)).length
    }
    expect(await downloads('/no such path'), 'the fault is for other calls').toBe(1)
    expect(await downloads('/content')).toBe(2)
  })

  it('returns a container’s output complete, in order and once if answers are lost or cut', async () => {
    const program = python("import sys\nfor n in range(2000): print(n, '€' * 50)\nsys.stdout.flush()")
    await using sandbox = await open(container, program)
    places.double.fault({ drop_after: 2, halve_after: 2, drop_path: '/v1/receive' })
    const lines = Array.from({ length: 2000 }, (_, n) => `${n} ${'€'.repeat(50)}\n`)
    expect(await printed(sandbox, program)).toBe(lines.join(''))
  })

  it.each(POOLS)('%s: passes characters that are printed byte by byte unchanged', async (kind) => {
    const program = python(`import sys
for byte in '€𝄞'.encode() + b'\\xff':
    sys.stdout.buffer.write(bytes([byte]))
    sys.stdout.flush()`)
    const { stdout } = await ran(kind === 'interpreter' ? interpreter : container, program)
    expect(Buffer.from(stdout, 'latin1').toString('hex')).toBe('e282acf09d849eff')
  })

  it.each(POOLS)('%s: runs nothing in an empty session that silently replaced its own', async (kind) => {
    const backend = kind === 'interpreter' ? interpreter : container
    await using sandbox = await open(backend, counting)
    places.double.fault({ vanish: 1 })
    await expect(printed(sandbox, counting)).rejects.toMatchObject({ code: 'sandbox_lost' })
  })

  it('reports out of memory if the service ended an execution for that', async () => {
    const program = python('print(1)')
    await using sandbox = await open(interpreter, program)
    places.double.fault({ fail_executions: 1, fail_stderr: 'Execution aborted' })
    const exit = await sandbox.run(program, {
      onOutput: () => undefined,
      maxOutputBytes: { stdout: 100, stderr: 100 },
      signal: AbortSignal.timeout(20_000),
    })
    expect(exit).toMatchObject({ oomKills: 1, signal: 'SIGKILL' })
    expect(await sandbox.list(['*'], 1)).toEqual([])
  })

  it('reports a full pool as such, and not as a failed program', async () => {
    const small = await startAzurePlaces(1)
    const backend = createAzureBackend(small.settings('custom'))
    const first = await open(backend, python('1'))
    await expect(open(backend, python('1'))).rejects.toMatchObject({
      code: 'backend_unavailable',
      details: { status: 429 },
    })
    await first[Symbol.asyncDispose]()
    await small[Symbol.asyncDispose]()
  })

  it('waits for a newly granted role with new tokens, and otherwise reports it as missing', async () => {
    const { identity } = places.double
    const tokens = createTokens(createCredentials(azureConfigSchema.parse(places.settings('custom'))))
    const api = createPoolApi({
      endpoint: places.double.endpoint('custom'),
      kind: 'container',
      tokens,
      timeoutMs: 10_000,
      roleGrantedAtMs: Date.now(),
      rolePauseMs: 1,
    })
    const before = identity.given['managed-identity'] ?? 0
    places.double.fault({ forbid: 6 })
    expect(await createSessionsAtPool(api, 'container').list()).toEqual([])
    expect((identity.given['managed-identity'] ?? 0) - before).toBe(7)
    places.double.fault({ forbid: 1 })
    const probed = await container.probe(AbortSignal.timeout(10_000))
    expect(probed).toMatchObject({ ok: false, why: expect.stringContaining('Session Executor') as string })
  })

  it('sends nothing until it is enabled and has a secret', async () => {
    const before = places.double.requests.length
    for (const more of [{ enabled: false }, { identifier_secret_file: join(places.folder, 'absent') }]) {
      const backend = createAzureBackend(places.settings('custom', more))
      expect((await backend.probe(AbortSignal.timeout(5000))).ok).toBe(false)
      await expect(open(backend, python('1'))).rejects.toMatchObject({ code: 'backend_unavailable' })
    }
    expect(places.double.requests.length).toBe(before)
  })

  it('shows secrets, tokens and identifiers in no sandbox, ref, log, entry or error', async () => {
    const logged: unknown[] = []
    const log = (fields: object, message: string): void => void logged.push(fields, message)
    const backend = createAzureBackend(places.settings('custom'), {
      sessions,
      logger: { debug: log, info: log, warn: log },
    })
    const program = python(
      "import glob, os\nprint(dict(os.environ))\nfor p in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):\n  try: print(open(p, 'rb').read())\n  except OSError: pass",
    )
    const sandbox = await open(backend, program, {
      reuse: 'session',
      session: { key: 'canary', scope: 'files', idleMs: null },
    })
    const seen = [await printed(sandbox, program), JSON.stringify(sandbox.ref)]
    places.double.fault({ fail: 50 })
    try {
      await sandbox[Symbol.asyncDispose]()
    } catch (error) {
      logged.push(String(error))
    }
    places.double.fault(NO_FAULTS)
    const [identifier = ''] = (await places.double.pool('custom').list()).map((session) => session.identifier)
    expect(identifier).toMatch(/^[a-z0-9]{16,64}$/)
    const kept = await sessions.list('t')
    const all =
      seen.join() +
      JSON.stringify(logged, (_key, value: unknown) =>
        value instanceof Error ? [value.message, value.stack, value.cause] : value,
      ) +
      JSON.stringify(kept)
    expect(all).toContain('PATH')
    for (const secret of [identifier, SECRET, 'eyJ', places.double.identity.settings.identityHeader])
      expect(all).not.toContain(secret)
    await backend.kill(sandbox.ref)
  })

  describe('sessions', () => {
    const session = { reuse: 'session', session: { key: 'k', scope: 'interpreter', idleMs: null } } as const
    const NAME = { tenantId: 't', backend: 'azure', key: 'k' }

    it('continue at another worker, and any worker can end them', async () => {
      const one = createAzureBackend(places.settings('custom'), { sessions })
      const two = createAzureBackend(places.settings('custom'), { sessions })
      const first = await open(one, python('x = 20'), session)
      await printed(first, python('x = 20'))
      await first[Symbol.asyncDispose]()
      const second = await open(two, python('print(x + 1)'), session)
      expect(await printed(second, python('print(x + 1)'))).toBe('21\n')
      expect(second.session).toEqual({ id: first.session?.id, fresh: false })
      await second[Symbol.asyncDispose]()
      const entry = await sessions.find(NAME)
      expect((entry?.idleAtMs ?? 0) - Date.now()).toBeLessThanOrEqual(60_000)
      if (entry === null) throw new Error('no entry')
      expect(await one.endSession?.(NAME, entry, AbortSignal.timeout(5000))).toBe(true)
    })

    it('keep their idle time after a file request that names none', async () => {
      const backend = createAzureBackend(places.settings('custom'), { sessions })
      const waits = { ...session, session: { ...session.session, idleMs: 3_000_000 } }
      await (await open(backend, python('1'), waits))[Symbol.asyncDispose]()
      const looking = await open(backend, { type: 'files', op: 'list' }, session)
      expect(looking.session?.fresh).toBe(false)
      await looking[Symbol.asyncDispose]()
      const entry = await sessions.find(NAME)
      expect((entry?.idleAtMs ?? 0) - (entry?.usedAtMs ?? 0)).toBe(3_000_000)
      await backend.kill(looking.ref)
    })

    it('are kept until just before the end of the paid hour if configured', async () => {
      const backend = createAzureBackend(places.settings('custom', { reap: 'paid-hour' }), { sessions })
      const sandbox = await open(backend, python('1'), session)
      await sandbox[Symbol.asyncDispose]()
      const entry = await sessions.find(NAME)
      expect((entry?.idleAtMs ?? 0) - (entry?.createdAtMs ?? 0)).toBe(58 * 60_000)
      await backend.kill(sandbox.ref)
    })

    it('stop at once if the lease is lost, and are not left behind', async () => {
      const backend = createAzureBackend(places.settings('custom'), { sessions })
      const program = python("import time; print('up', flush=True); time.sleep(60)")
      const sandbox = await open(backend, program, session)
      const running = expect(printed(sandbox, program)).rejects.toMatchObject({ code: 'fenced' })
      await sessions.expire(NAME)
      await running
      await sandbox[Symbol.asyncDispose]()
    })

    it('start again if the lease is lost before their rest is recorded', async () => {
      let isLost = false
      const slow: typeof sessions = {
        ...sessions,
        async claim(...asked) {
          const lease = await sessions.claim(...asked)
          const keep = lease.keep.bind(lease)
          return Object.assign(lease, {
            keep: async (entry: SessionEntry) => {
              if (isLost) await sessions.expire(NAME)
              await keep(entry)
            },
          })
        },
      }
      const one = createAzureBackend(places.settings('custom'), { sessions: slow })
      const two = createAzureBackend(places.settings('custom'), { sessions })
      const made = await open(one, python('x = 20'), session)
      await printed(made, python('x = 20'))
      await made[Symbol.asyncDispose]()
      const first = await open(one, python('x += 1'), session)
      await printed(first, python('x += 1'))
      isLost = true
      await first[Symbol.asyncDispose]()
      const second = await open(two, python("print('x' in globals())"), session)
      expect(second.session?.fresh).toBe(true)
      expect(await printed(second, python("print('x' in globals())"))).toBe('False\n')
      await second[Symbol.asyncDispose]()
      await two.kill(second.ref)
    })

    it('serve two competing workers in turn, and run each program once', async () => {
      const workers = [1, 2].map(() => createAzureBackend(places.settings('custom'), { sessions }))
      const program = python(
        "globals().setdefault('seen', []).append(len(seen) if 'seen' in globals() else 0)\nprint(seen)",
      )
      const turns = await Promise.all(
        [0, 1, 2, 3, 4, 5].map(async (n) => {
          const sandbox = await open(workers[n % 2] as Backend, program, session)
          const text = await printed(sandbox, program)
          await sandbox[Symbol.asyncDispose]()
          return text
        }),
      )
      expect(turns.toSorted((a, b) => a.length - b.length).at(-1)).toBe('[0, 1, 2, 3, 4, 5]\n')
      expect(new Set(turns).size).toBe(6)
      const entry = await sessions.find(NAME)
      if (entry === null) throw new Error('no entry')
      await workers[0]?.endSession?.(NAME, entry, AbortSignal.timeout(20_000))
    })

    it.each([
      ['cancelled', '/v1/attach'],
      ['cancelled', '/v1/receive'],
      ['fenced', '/v1/receive'],
    ] as const)('stay unchanged if an attempt is %s during %s', async (why, call) => {
      const backend = createAzureBackend(places.settings('custom'), { sessions })
      const first = await open(backend, python('x = 20'), session)
      await printed(first, python('x = 20'))
      await first[Symbol.asyncDispose]()
      const held = places.double.hold(call)
      const stop = new AbortController()
      const opening = backend.open({ ...jobSpec(FLEET, python('x')), ...session }, stop.signal)
      const failed = expect(opening).rejects.toMatchObject({
        code: why === 'cancelled' ? 'cancelled by the test' : 'fenced',
      })
      await held.arrived
      if (why === 'cancelled') stop.abort({ code: 'cancelled by the test' })
      else await sessions.expire(NAME)
      held.letGo()
      await failed
      const second = await open(backend, python('print(x + 1)'), session)
      expect(second.session).toEqual({ id: first.session?.id, fresh: false })
      expect(await printed(second, python('print(x + 1)'))).toBe('21\n')
      await second[Symbol.asyncDispose]()
      await backend.kill(second.ref)
    })

    it('stay unchanged if the pool is unreachable for a moment', async () => {
      const backend = createAzureBackend(places.settings('custom'), { sessions })
      const first = await open(backend, python('x = 20'), session)
      await printed(first, python('x = 20'))
      await first[Symbol.asyncDispose]()
      places.double.fault({ throttle: 4, retry_after: 0 })
      await expect(open(backend, python('x'), session)).rejects.toMatchObject({
        code: 'backend_unavailable',
      })
      const second = await open(backend, python('print(x + 1)'), session)
      expect(await printed(second, python('print(x + 1)'))).toBe('21\n')
      await second[Symbol.asyncDispose]()
      await backend.kill(second.ref)
    })

    it('start again with another ID if the service ended them', async () => {
      const backend = createAzureBackend(places.settings('custom'), { sessions })
      const first = await open(backend, python('1'), session)
      await first[Symbol.asyncDispose]()
      const [before] = await places.double.pool('custom').list()
      await places.double.pool('custom').end(before?.identifier ?? '')
      const second = await open(backend, python('1'), session)
      expect(second.session?.fresh).toBe(true)
      const [after] = await places.double.pool('custom').list()
      expect(after?.identifier).not.toBe(before?.identifier)
      await second[Symbol.asyncDispose]()
      await backend.kill(second.ref)
    })
  })

  it('reads a replaced secret again, and derives other identifiers from it', async () => {
    const file = join(places.folder, 'rotated')
    writeFileSync(file, 'first-secret-of-at-least-32-bytes-long')
    const backend = createAzureBackend(places.settings('custom', { identifier_secret_file: file }))
    const sandbox = await open(backend, python('1'))
    writeFileSync(file, 'other-secret-of-at-least-32-bytes-long')
    expect(await backend.kill(sandbox.ref)).toBe(false)
    await sandbox[Symbol.asyncDispose]()
  })
})
