/** Failures of the service and of proxies during or before a run: nothing is lost, nothing is left behind. */
import {
  BOUNDS,
  newWorkerId,
  type Backend,
  type Program,
  type Sandbox,
  type SandboxSpec,
} from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { NO_FAULTS } from '../double/faults.ts'
import { azureConfigSchema } from '../src/config.ts'
import { createCredentials } from '../src/credentials.ts'
import { createIdentifiers } from '../src/identifier.ts'
import { createAzureBackend } from '../src/index.ts'
import { createPoolApi } from '../src/pool-api.ts'
import { createTokens } from '../src/tokens.ts'
import { startAzurePlaces, type AzurePlaces } from './places.ts'
import { redisSessions, jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const FLEET = 'c4c4c4c4c4c4'
const WAIT = { timeout: 60_000, interval: 20 }

needs('bwrap').describe('azure in trouble', () => {
  let places: AzurePlaces
  beforeAll(async () => {
    places = await startAzurePlaces()
  })
  afterEach(async () => {
    vi.restoreAllMocks()
    places.double.fault(NO_FAULTS)
    for (const pool of ['python', 'custom'])
      await vi.waitFor(async () => expect(await places.double.pool(pool).list()).toEqual([]), WAIT)
  })
  afterAll(() => places[Symbol.asyncDispose]())

  const open = (
    backend: Backend,
    program: Program,
    more: Partial<SandboxSpec> = {},
    signal = AbortSignal.timeout(30_000),
  ): Promise<Sandbox> => backend.open({ ...jobSpec(FLEET, program), ...more }, signal)

  it.each(['python', 'custom'] as const)(
    '%s: continues a program while the pool throttles for longer than a new program would wait',
    async (pool) => {
      const backend = createAzureBackend(places.settings(pool))
      const program = python("import time; time.sleep(0.2); print('whole')")
      await using sandbox = await open(backend, program)
      await sandbox.list(['*'], 1)
      const path = pool === 'custom' ? '/v1/receive' : '/executions'
      places.double.fault({ throttle: 12, retry_after: 0, drop_path: path })
      expect(await printed(sandbox, program)).toBe('whole\n')
    },
  )

  it('learns the older dialect with two concurrent first executions', async () => {
    const plane = places.double.codePlane('python')
    plane.dialects = ['old']
    try {
      const backend = createAzureBackend(places.settings('python'))
      const ran = await Promise.all(
        [1, 2].map(async (n) => {
          const program = python(`print(${n})`)
          await using sandbox = await open(backend, program)
          return await printed(sandbox, program)
        }),
      )
      expect(ran).toEqual(['1\n', '2\n'])
    } finally {
      plane.dialects = ['oldest', 'old', 'new']
    }
  })

  it.each([
    ['python', '/files'],
    ['custom', '/v1/attach'],
  ] as const)('%s: ends a session that a stopped attempt still creates', async (pool, path) => {
    const backend = createAzureBackend(places.settings(pool))
    const sessions = places.double.pool(pool)
    const before = sessions.allocated
    const held = places.double.hold(path)
    const stop = new AbortController()
    const opening = expect(open(backend, python('1'), {}, stop.signal)).rejects.toThrow('stopped')
    await held.arrived
    stop.abort(new Error('stopped'))
    await opening
    expect(sessions.allocated).toBe(before)
    held.letGo()
    await vi.waitFor(() => expect(sessions.allocated).toBe(before + 1), WAIT)
    await vi.waitFor(async () => expect(await sessions.list()).toEqual([]), WAIT)
    expect(sessions.allocated).toBe(before + 1)
  })

  it('does not delay a caller that gives up while it looks for the session of a lost call', async () => {
    const api = createPoolApi({
      endpoint: places.double.endpoint('custom'),
      kind: 'container',
      tokens: createTokens(createCredentials(azureConfigSchema.parse(places.settings('custom')))),
      // Longer than this test takes.
      timeoutMs: 600_000,
      roleGrantedAtMs: null,
    })
    const held = places.double.hold('/.management/getSession')
    places.double.fault({ drop_before: 1, drop_path: '/v1/send' })
    const stop = new AbortController()
    const call = { method: 'POST', path: '/v1/send', identifier: 'nobody', isRepeatable: true } as const
    const called = expect(
      api.call({ ...call, bytes: new Uint8Array(), signal: stop.signal }),
    ).rejects.toThrow('stopped')
    await held.arrived
    stop.abort(new Error('stopped'))
    await called
    held.letGo()
  })

  it('ends a session that a poll creates after the end', async () => {
    const warned: string[] = []
    const log = (_fields: object, message: string): void => void warned.push(message)
    const logger = { debug: log, info: log, warn: log }
    const backend = createAzureBackend(places.settings('custom'), { logger })
    const sessions = places.double.pool('custom')
    const before = sessions.allocated
    const program = python("import time; print('up', flush=True); time.sleep(60)")
    const sandbox = await open(backend, program)
    const stop = new AbortController()
    // Stop the clock: when the session ends, the poll is too young to count as arrived, so the backend ends
    // the session again later.
    const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
    const held = places.double.hold('/v1/receive')
    const running = expect(
      sandbox.run(program, {
        onOutput: () => undefined,
        maxOutputBytes: { stdout: 100, stderr: 100 },
        signal: stop.signal,
      }),
    ).rejects.toThrow('stopped')
    await held.arrived
    stop.abort(new Error('stopped'))
    await running
    await sandbox[Symbol.asyncDispose]()
    expect([await sessions.list(), sessions.allocated]).toEqual([[], before + 1])
    held.letGo()
    clock.mockRestore()
    await vi.waitFor(() => expect(sessions.allocated).toBe(before + 2), WAIT)
    await vi.waitFor(async () => expect(await sessions.list()).toEqual([]), WAIT)
    // A second kill finds nothing, which is not a failure.
    expect(await backend.kill(sandbox.ref)).toBe(false)
    await backend[Symbol.asyncDispose]()
    expect(warned).toEqual([])
  })

  it.each([
    ['python', 'python/session'],
    ['custom', 'stopSession'],
  ] as const)('%s: ends a session that the pool does not know yet', async (pool, path) => {
    const backend = createAzureBackend(places.settings(pool))
    // Stop the clock, so that the session counts as new however slow the machine is.
    vi.spyOn(performance, 'now').mockReturnValue(performance.now())
    const sandbox = await open(backend, python('1'))
    places.double.fault({ hide: 1, drop_path: path })
    await sandbox[Symbol.asyncDispose]()
    expect(await places.double.pool(pool).list()).toHaveLength(1)
    await backend[Symbol.asyncDispose]()
    expect(await places.double.pool(pool).list()).toEqual([])
  })

  it.each(['python', 'custom'] as const)(
    '%s: finds all of its sessions, however small a page is',
    async (name) => {
      const pool = places.double.pool(name)
      const backend = createAzureBackend(places.settings(name))
      const owners = Array.from({ length: 11 }, () => newWorkerId(FLEET))
      const identifiers = createIdentifiers(places.settings(name).identifier_secret_file)
      const names = await Promise.all(owners.map((owner) => identifiers.ofJob(owner, 'seed')))
      pool.page = 1
      try {
        await Promise.all(names.map((identifier) => pool.of(identifier)))
        expect((await backend.owners()).toSorted()).toEqual(owners.toSorted())
      } finally {
        pool.page = 300
        await Promise.all(names.map((identifier) => pool.end(identifier)))
      }
    },
  )

  it('reports an error for a list of sessions that does not end', async () => {
    const page = Array.from({ length: 300 }, () => ({ identifier: 'others' }))
    places.double.fault({
      odd_after: 1000,
      odd_body: JSON.stringify({ value: page, nextLink: 'more' }),
      drop_path: 'listSessions',
    })
    await expect(createAzureBackend(places.settings('python')).owners()).rejects.toMatchObject({
      code: 'protocol_violation',
    })
  })

  it('runs a program once and reports its end if the answer comes before the end', async () => {
    const backend = createAzureBackend(places.settings('python'))
    const program = python("open('n', 'a').write('x'); print('once')")
    places.double.fault({ answer_early: 1000 })
    await using sandbox = await open(backend, program)
    expect(await printed(sandbox, program)).toBe('once\n')
    expect(Buffer.from(await sandbox.read('n', 10)).toString()).toBe('x')
  })

  it.each([
    ['is empty', ''],
    ['is no execution', '{}'],
    ['says that it runs', '{"id":"x","status":"Running"}'],
  ])('asks for a program’s outcome if the answer %s', async (_words, body) => {
    const backend = createAzureBackend(places.settings('python'))
    const program = python("open('n', 'a').write('x'); print('once')")
    await using sandbox = await open(backend, program)
    await sandbox.list(['*'], 1)
    places.double.fault({ odd_after: 1, odd_body: body, drop_path: '/executions' })
    expect(await printed(sandbox, program)).toBe('once\n')
    expect(Buffer.from(await sandbox.read('n', 10)).toString()).toBe('x')
  })

  it('returns the whole output of a program whose output is kept for later', async () => {
    const bytes = BOUNDS.fullOutputBytes
    const program = python(`import sys; sys.stdout.write('x' * ${bytes})`)
    const backend = createAzureBackend(places.settings('python'))
    await using sandbox = await open(backend, program)
    let got = 0
    const exit = await sandbox.run(program, {
      onOutput: (_stream, chunk) => void (got += chunk.length),
      maxOutputBytes: { stdout: bytes, stderr: bytes },
      signal: AbortSignal.timeout(100_000),
    })
    expect([exit.exitCode, got]).toEqual([0, bytes])
  })

  it('hides earlier transfer files from later executions of a session', async () => {
    await using sessions = await redisSessions()
    const backend = createAzureBackend(places.settings('python', { detached: true }), { sessions })
    const session = { reuse: 'session', session: { key: 'k', scope: 'files', idleMs: null } } as const
    const big = python("print(open('in').read()[:3], 'x' * 300_000)")
    const first = await open(backend, big, session)
    await first.write([{ path: 'in', bytes: Buffer.alloc(200_000, 's') }])
    expect((await printed(first, big)).slice(0, 4)).toBe('sss ')
    await first[Symbol.asyncDispose]()
    const look = python(
      "import glob; print([p for p in glob.glob('/mnt/data/*') if '-in-' in p or '-out-' in p])",
    )
    const second = await open(backend, look, session)
    expect(second.session).toMatchObject({ id: first.session?.id, fresh: false })
    expect(await printed(second, look)).toBe('[]\n')
    await second[Symbol.asyncDispose]()
    await backend.kill(second.ref)
  })
})
