/**
 * E2B's unmodified SDK tests the double's control API with the cases of the SDK's own tests of the service
 * (e2b-dev/E2B @b8029973, packages/js-sdk/tests/api and sandbox), and with unsupported calls.
 */
import { AuthenticationError, Sandbox, SandboxError, SandboxNotFoundError, TimeoutError } from 'e2b'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { startE2bDouble, type E2bDouble } from '../double/e2b-double.ts'

needs('bwrap').describe('E2B’s double, called by E2B’s SDK for sandboxes,', () => {
  let double: E2bDouble
  let options: { apiKey: string; apiUrl: string; sandboxUrl: string; retries: number }

  beforeAll(async () => {
    double = await startE2bDouble()
    options = { apiKey: double.apiKey, apiUrl: double.origin, sandboxUrl: double.origin, retries: 0 }
  })
  afterEach(async () => {
    await Promise.all(double.running().map(({ id }) => double.end(id)))
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
  })

  const create = async (more: object = {}): Promise<Sandbox> =>
    await Sandbox.create('base', { ...options, timeoutMs: 60_000, ...more })
  const listed = async (more: object = {}): Promise<string[]> =>
    (await Sandbox.list({ ...options, ...more }).nextItems()).map(({ sandboxId }) => sandboxId)

  it('creates, shows and kills a sandbox, and reports if there is none', async () => {
    const metadata = { 'test-key': 'test-value' }
    const sandbox = await create({ metadata, envs: { FOO: 'bar' } })
    expect(await sandbox.isRunning()).toBe(true)
    const info = await Sandbox.getInfo(sandbox.sandboxId, options)
    expect(info).toMatchObject({
      sandboxId: sandbox.sandboxId,
      metadata,
      state: 'running',
      templateId: 'base',
    })
    expect(info.endAt.getTime() - info.startedAt.getTime()).toBeGreaterThan(50_000)
    expect(info.lifecycle).toEqual({ onTimeout: 'kill', autoResume: false })
    expect(await sandbox.kill()).toBe(true)
    expect(await sandbox.isRunning()).toBe(false)
    expect(await listed({ query: { state: ['running'] } })).toEqual([])
    expect(await Sandbox.kill('nonexistingsandbox', options)).toBe(false)
    await expect(Sandbox.getInfo(sandbox.sandboxId, options)).rejects.toBeInstanceOf(SandboxNotFoundError)
    await expect(Sandbox.connect(sandbox.sandboxId, options)).rejects.toBeInstanceOf(SandboxNotFoundError)
    await expect(Sandbox.setTimeout(sandbox.sandboxId, 1000, options)).rejects.toBeInstanceOf(
      SandboxNotFoundError,
    )
  })

  it('shows the options of a sandbox', async () => {
    const network = { allowPublicTraffic: false, denyOut: ['0.0.0.0/0'] }
    const info = await (await create({ allowInternetAccess: false, network })).getInfo()
    expect(info).toMatchObject({ allowInternetAccess: false, network })
  })

  it('lists by metadata, state, template, start and order, page by page', async () => {
    const first = await create({ metadata: { who: 'first', all: 'yes' } })
    const { startedAt } = await first.getInfo()
    // The list's times have a resolution of a millisecond.
    await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(startedAt.getTime() + 1), 20_000)
    const second = await Sandbox.create('code-interpreter-v1', {
      ...options,
      timeoutMs: 60_000,
      metadata: { who: 'second', all: 'yes' },
    })
    const ids = [first.sandboxId, second.sandboxId]
    expect(await listed({ query: { metadata: { who: 'first' } } })).toEqual([ids[0]])
    expect(await listed({ query: { metadata: { all: 'yes' } } })).toEqual([...ids].reverse())
    expect(await listed({ order: 'asc' })).toEqual(ids)
    expect(await listed({ order: 'desc' })).toEqual([...ids].reverse())
    expect(await listed({ query: { state: ['running', 'paused'] } })).toHaveLength(2)
    expect(await listed({ query: { state: ['paused'] } })).toEqual([])
    expect(await listed({ query: { template: 'base' } })).toEqual([ids[0]])
    expect(await listed({ query: { template: 'unknown-template' } })).toEqual([])
    expect(await listed({ query: { startedAfter: startedAt } })).toHaveLength(2)
    expect(await listed({ query: { startedAfter: new Date(startedAt.getTime() + 1) } })).toEqual([ids[1]])
    const pages = Sandbox.list({ ...options, limit: 1, query: { metadata: { all: 'yes' } } })
    expect((await pages.nextItems()).map(({ sandboxId }) => sandboxId)).toEqual([ids[1]])
    expect([pages.hasNext, typeof pages.nextToken]).toEqual([true, 'string'])
    expect((await pages.nextItems()).map(({ sandboxId }) => sandboxId)).toEqual([ids[0]])
    expect([pages.hasNext, pages.nextToken]).toEqual([false, undefined])
    for (const wrong of [{ order: 'sideways' }, { query: { state: ['asleep'] } }, { nextToken: 'no token' }])
      await expect(listed(wrong)).rejects.toMatchObject({ statusCode: 400 })
  })

  it('connects another client without shortening the sandbox’s life', async () => {
    const sandbox = await create({ timeoutMs: 300_000 })
    const before = (await sandbox.getInfo()).endAt
    const other = await Sandbox.connect(sandbox.sandboxId, { ...options, timeoutMs: 10_000 })
    expect(await other.isRunning()).toBe(true)
    await other.files.write('hello.txt', 'hello')
    expect(await sandbox.files.read('hello.txt')).toBe('hello')
    expect((await sandbox.getInfo()).endAt).toEqual(before)
    await sandbox.connect({ timeoutMs: 600_000 })
    expect((await sandbox.getInfo()).endAt.getTime()).toBeGreaterThan(before.getTime())
  })

  it('ends a sandbox at its latest deadline, not at an earlier one', async () => {
    const [short, long] = await Promise.all([create(), create()])
    await Promise.all([short.setTimeout(1000), long.setTimeout(1000)])
    await long.setTimeout(60_000)
    await expect.poll(async () => await short.isRunning(), { timeout: 20_000 }).toBe(false)
    expect(await long.isRunning()).toBe(true)
  })

  it('tells a client that its sandbox is gone if it is killed while a command runs', async () => {
    const sandbox = await create()
    const command = await sandbox.commands.run('sleep 60', { background: true })
    const ended = command.wait().catch((error: unknown) => error)
    await sandbox.kill()
    const error = await ended
    expect(error).toBeInstanceOf(TimeoutError)
    expect(String(error)).toContain('sandbox was killed or reached its end of life')
  })

  it('answers for a sandbox that is gone like the service’s proxy', async () => {
    const sandbox = await create()
    const host = sandbox.getHost(3000)
    const asked = async (): Promise<unknown> => {
      const response = await fetch(double.origin, {
        headers: { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': host.split('-')[0] ?? '' },
      })
      return { status: response.status, ...((await response.json()) as object) }
    }
    expect(await asked()).toMatchObject({ status: 502, code: 502, message: 'The port is not open' })
    await sandbox.kill()
    expect(await asked()).toEqual({
      status: 502,
      code: 502,
      message: 'The sandbox was not found',
      sandboxId: sandbox.sandboxId,
    })
  })

  it('refuses another key', async () => {
    const apiKey = `e2b_${'1'.repeat(40)}`
    await expect(Sandbox.create('base', { ...options, apiKey })).rejects.toBeInstanceOf(AuthenticationError)
    await expect(Sandbox.list({ ...options, apiKey }).nextItems()).rejects.toBeInstanceOf(AuthenticationError)
  })

  it.each([
    ['pause', (sandbox: Sandbox) => sandbox.pause()],
    ['createSnapshot', (sandbox: Sandbox) => sandbox.createSnapshot()],
    ['getMetrics', (sandbox: Sandbox) => sandbox.getMetrics()],
    ['updateNetwork', (sandbox: Sandbox) => sandbox.updateNetwork({ allowInternetAccess: false })],
    ['listSnapshots', () => Sandbox.listSnapshots(options).nextItems()],
    ['deleteSnapshot', () => Sandbox.deleteSnapshot('snapshot', options)],
  ] as const)('reports that it does not support %s, not that the sandbox is gone', async (_name, call) => {
    const sandbox = await create()
    const error: unknown = await call(sandbox).catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(SandboxError)
    expect(error).not.toBeInstanceOf(SandboxNotFoundError)
    expect(error).toMatchObject({
      statusCode: 500,
      message: expect.stringContaining('this double') as string,
    })
    expect(await sandbox.isRunning()).toBe(true)
  })

  it('reports an unknown sandbox before an unsupported call', async () => {
    await expect(Sandbox.pause('nonexistingsandbox', options)).rejects.toBeInstanceOf(SandboxNotFoundError)
  })

  it.each([{ lifecycle: { onTimeout: 'pause' } }, { volumeMounts: { '/mnt': 'volume' } }])(
    'refuses to create a sandbox with the unsupported option %j',
    async (more) => {
      await expect(create(more)).rejects.toMatchObject({
        statusCode: 400,
        message: expect.stringContaining('this double') as string,
      })
      expect(double.running()).toEqual([])
    },
  )
})
