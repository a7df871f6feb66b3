/** Tests of the E2B backend alone, and E2B's own SDK as proof that the double behaves like E2B. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  DEFAULT_LIMITS,
  type Backend,
  type Program,
  type Sandbox,
  type SandboxSpec,
} from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { startE2bDouble, type E2bDouble } from '../double/e2b-double.ts'
import { E2B_ENVD, processEvent, watchEvent } from '../double/published.ts'
import { decodeMessages, encodeMessage } from '../src/connect-messages.ts'
import { createControlApi } from '../src/control-api.ts'
import { envdAddress } from '../src/envd-address.ts'
import { createE2bBackend } from '../src/index.ts'
import { jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

/** Prints its environment and every other environment that it can read. */
const LOOK = `
import glob, json, os
def text(path):
    try:
        return open(path, 'rb').read().decode('latin1')
    except OSError:
        return ''
print(json.dumps([dict(os.environ), [text(path) for path in glob.glob('/proc/[0-9]*/environ')]]))`

needs('bwrap').describe('e2b', () => {
  const folder = temporaryFolder('e2b')
  const keyFile = join(folder, 'key')
  let double: E2bDouble
  let backend: Backend

  beforeAll(async () => {
    double = await startE2bDouble()
    writeFileSync(keyFile, `${double.apiKey}\n`)
    backend = createE2bBackend({ api_key_file: keyFile, api_url: double.origin, sandbox_url: double.origin })
  })
  afterEach(() => {
    expect(double.running(), 'left at the vendor').toEqual([])
  })
  afterAll(async () => {
    await backend[Symbol.asyncDispose]()
    await double[Symbol.asyncDispose]()
  })

  const spec = (program: Program): SandboxSpec => jobSpec('e2be2be2be2b', program)
  const open = (program: Program, signal = AbortSignal.timeout(20_000)): Promise<Sandbox> =>
    backend.open(spec(program), signal)

  it('is called again after it throttled, with or without a Retry-After', async () => {
    for (const retryAfter of [1, null]) {
      const before = double.created
      double.fault({ throttle_creates: 1, retry_after: retryAfter })
      const program = python('print(1 + 1)')
      await using sandbox = await open(program)
      expect(await printed(sandbox, program)).toBe('2\n')
      expect(double.created - before).toBe(1)
    }
  })

  it('gives up after three refusals, or if the requested pause is too long', async () => {
    double.fault({ throttle_creates: 3, retry_after: 0 })
    await expect(open(python('1'))).rejects.toMatchObject({ code: 'backend_unavailable' })
    double.fault({ throttle_creates: 1, retry_after: 600 })
    await expect(open(python('1'))).rejects.toMatchObject({ code: 'backend_unavailable' })
    double.fault({ throttle_creates: 0, retry_after: null })
  })

  it.each(['drop_creates', 'break_creates'])(
    'leaves nothing if the answer to a create is lost (%s), and does not create twice',
    async (fault) => {
      const before = double.created
      double.fault({ [fault]: 1 })
      await expect(open(python('1'))).rejects.toMatchObject({ code: 'backend_unavailable' })
      expect(double.created - before).toBe(1)
    },
  )

  it.each([
    ['is older than programs need', '/opt/e2b/base/node', 'Node.js there is v20.9.0'],
    ['is not there', '/opt/no/node', 'does not start there'],
  ])(
    'refuses JavaScript before it runs if Node.js %s, without a failure of the backend',
    async (_words, node, why) => {
      const before = double.created
      const by = createE2bBackend({
        api_key_file: keyFile,
        api_url: double.origin,
        sandbox_url: double.origin,
        template: 'base',
        node,
      })
      const program: Program = { type: 'script', language: 'javascript', source: 'export default 1' }
      await expect(by.open(spec(program), AbortSignal.timeout(20_000))).rejects.toMatchObject({
        code: 'capability_missing',
        message: expect.stringContaining(why) as string,
      })
      expect(double.created - before).toBe(1)
      await using other = await by.open(spec(python('1')), AbortSignal.timeout(20_000))
      expect(await printed(other, python('print(1)'))).toBe('1\n')
    },
  )

  it('kills a sandbox that a lost create made later, in the janitor’s next round', async () => {
    const before = double.created
    double.fault({ lose_creates: 1 })
    await expect(open(python('1'))).rejects.toMatchObject({ code: 'backend_unavailable' })
    await expect.poll(() => double.created, { timeout: 20_000 }).toBe(before + 1)
    expect(await backend.owners()).toEqual([])
  })

  it('leaves nothing if the caller gives up while the service creates a sandbox', async () => {
    const asked = double.requests.length
    const stop = new AbortController()
    double.fault({ latency_ms: 300 })
    const opening = open(python('1'), stop.signal)
    opening.catch(() => undefined)
    await expect.poll(() => double.requests.length, { timeout: 20_000 }).toBeGreaterThan(asked)
    stop.abort(new Error('given up'))
    const sandbox = await opening.catch((error: unknown) => error)
    if (sandbox instanceof Error) expect(sandbox.message).toBe('given up')
    else await (sandbox as Sandbox)[Symbol.asyncDispose]()
    double.fault({ latency_ms: 0 })
  })

  it.each([{ throttle_kills: 3, retry_after: 0 }, { page_kills: 1 }])(
    'repeats a refused kill until the service confirms it (%j)',
    async (fault) => {
      const sandbox = await open(python('1'))
      double.fault(fault)
      await expect(sandbox[Symbol.asyncDispose]()).rejects.toMatchObject({ code: 'backend_unavailable' })
      expect(double.running()).toHaveLength(1)
      expect(await backend.owners()).toEqual([])
      double.fault({ retry_after: null })
    },
  )

  it('repeats a kill if the service does not know its new sandbox yet', async () => {
    const sandbox = await open(python('1'))
    double.fault({ unknown_kills: 2 })
    await sandbox[Symbol.asyncDispose]()
    expect(double.running()).toHaveLength(1)
    expect(await backend.owners()).toEqual([])
  })

  it('waits for a throttling proxy at every kind of request to a sandbox', async () => {
    double.fault({ throttle_sandboxes: 1, retry_after: 0 })
    const program = python('print(1 + 1)')
    await using sandbox = await open(program)
    double.fault({ throttle_sandboxes: 1 })
    expect(await printed(sandbox, program)).toBe('2\n')
    double.fault({ retry_after: null })
  })

  it.each(['fail_inputs', 'page_inputs'])(
    'reports a sandbox as lost if input may not have arrived (%s), and sends nothing twice',
    async (fault) => {
      const program = python('import time; time.sleep(60)')
      await using sandbox = await open(program)
      double.fault({ [fault]: 1 })
      const inputs = (): number => double.requests.filter((path) => path.endsWith('/SendInput')).length
      const before = inputs()
      await expect(printed(sandbox, program)).rejects.toMatchObject({ code: 'sandbox_lost' })
      expect(inputs() - before).toBe(1)
    },
  )

  it('refuses access to a sandbox without its tokens', async () => {
    await using sandbox = await open(python('1'))
    for (const [port, path, status] of [
      ['49983', '/files?path=/etc/hostname', 401],
      ['8000', '/', 403],
    ] as const) {
      const headers = { 'E2b-Sandbox-Id': String(sandbox.ref.handle['sandbox']), 'E2b-Sandbox-Port': port }
      expect((await fetch(`${double.origin}${path}`, { headers })).status).toBe(status)
    }
  })

  it('reports a stream that was cut off as lost, never as a success', async () => {
    const program = python("print('x' * 200_000)")
    // Enough for the agent's ready frame, but not for the output.
    double.fault({ cut_stream_after: 100_000 })
    await using sandbox = await open(program)
    await expect(printed(sandbox, program)).rejects.toMatchObject({ code: 'sandbox_lost' })
  })

  // The second of these faults ends the stream after the process started and before its agent has sent
  // anything.
  it.each([{ cut_stream_after: 0 }, { cut_stream_after: 60 }, { refuse_streams: 1 }])(
    'uses a fresh sandbox if a stream ends before anything could run (%j)',
    async (fault) => {
      const before = double.created
      double.fault(fault)
      const program = python('print(1)')
      await using sandbox = await open(program)
      expect([double.created - before, double.running().length]).toEqual([2, 1])
      expect(await printed(sandbox, program)).toBe('1\n')
    },
  )

  it('runs and leaves nothing if a second stream ends before anything could run', async () => {
    double.fault({ refuse_streams: 2 })
    await expect(open(python('1'))).rejects.toMatchObject({
      code: 'sandbox_open_failed',
      // The message tells which failure it was.
      message: expect.stringMatching(/did not start: (E2B: the stream ended|ECONNRESET|UND_ERR)/) as string,
    })
  })

  it('reassembles characters and messages that arrive in pieces', async () => {
    const program = python("print('é漢😀' * 50)")
    double.fault({ piece_bytes: 3 })
    await using sandbox = await open(program)
    expect(await printed(sandbox, program)).toBe(`${'é漢😀'.repeat(50)}\n`)
    double.fault({ piece_bytes: 0 })
  })

  it('runs and leaves nothing if the service reports that a fresh sandbox is ending', async () => {
    double.fault({ conflict_timeouts: 1 })
    await expect(open(python('1'))).rejects.toMatchObject({ code: 'sandbox_open_failed' })
  })

  it('reports a sandbox as lost if the vendor ends it', async () => {
    const program = python("import time; print('up', flush=True); time.sleep(60)")
    await using sandbox = await open(program)
    const lost = expect(printed(sandbox, program)).rejects.toMatchObject({ code: 'sandbox_lost' })
    await double.end(String(sandbox.ref.handle['sandbox']))
    await lost
  })

  it('has the vendor end a forgotten sandbox soon after its hard deadline', async () => {
    await using sandbox = await open(python('1'))
    const id = String(sandbox.ref.handle['sandbox'])
    const asked = await fetch(`${double.origin}/sandboxes/${id}`, { headers: { 'X-API-KEY': double.apiKey } })
    const { endAt } = (await asked.json()) as { endAt: string }
    const leftMs = Date.parse(endAt) - Date.now()
    expect(leftMs).toBeGreaterThan(DEFAULT_LIMITS.hard_timeout_ms)
    expect(leftMs).toBeLessThan(DEFAULT_LIMITS.hard_timeout_ms + 60_000)
  })

  it('lets another worker sweep what an owner left', async () => {
    const wish = spec(python('1'))
    await using sandbox = await backend.open(wish, AbortSignal.timeout(20_000))
    const other = createE2bBackend({
      api_key_file: keyFile,
      api_url: double.origin,
      sandbox_url: double.origin,
    })
    expect(await other.owners()).toContain(wish.owner)
    expect(await other.sweep(wish.owner)).toEqual({ destroyed: 1 })
    expect(await other.kill(sandbox.ref)).toBe(false)
    await other[Symbol.asyncDispose]()
  })

  it('finds its own sandboxes in a list with entries that it cannot read', async () => {
    const wish = spec(python('1'))
    await using sandbox = await backend.open(wish, AbortSignal.timeout(20_000))
    double.fault({ strange_entries: true })
    expect([await backend.owners(), await backend.sweep(wish.owner)]).toEqual([
      [wish.owner],
      { destroyed: 1 },
    ])
    double.fault({ strange_entries: false })
    expect(await backend.kill(sandbox.ref)).toBe(false)
  })

  it('sweeps only its own sandboxes, whatever the service lists', async () => {
    await using sandbox = await open(python('1'))
    double.fault({ ignore_filters: true })
    expect(await backend.sweep(spec(python('1')).owner)).toEqual({ destroyed: 0 })
    double.fault({ ignore_filters: false })
    expect(double.running().map(({ id }) => id)).toEqual([sandbox.ref.handle['sandbox']])
    expect(sandbox.ref.vendorRef).toBe(sandbox.ref.handle['sandbox'])
  })

  it('shows the key neither in the sandbox nor in refs and errors', async () => {
    const program = python(LOOK)
    await using sandbox = await open(program)
    const stdout = await printed(sandbox, program)
    expect(stdout).toContain('PATH')
    expect(stdout + JSON.stringify(sandbox.ref)).not.toContain(double.apiKey)
    writeFileSync(keyFile, 'e2b_wrong_and_secret_0123456789')
    double.fault({ echo_key: true })
    const refused = await open(python('1')).catch((error: unknown) => error)
    const probed = await backend.probe(AbortSignal.timeout(20_000))
    writeFileSync(keyFile, double.apiKey)
    double.fault({ echo_key: false })
    expect(refused).toMatchObject({ code: 'backend_unavailable' })
    expect(probed.ok).toBe(false)
    expect(
      JSON.stringify([probed, String(refused), (refused as { details: unknown }).details]),
    ).not.toContain('wrong_and_secret')
  })

  it('names the problem of a bad key file', async () => {
    for (const [path, words] of [
      [join(folder, 'absent'), 'cannot be read'],
      [folder, 'cannot be read'],
    ] as const) {
      const other = createE2bBackend({ api_key_file: path, api_url: double.origin })
      const probed = await other.probe(AbortSignal.timeout(20_000))
      expect(probed).toMatchObject({ ok: false, why: expect.stringContaining(words) as string })
      await other[Symbol.asyncDispose]()
    }
  })

  it('finds sandboxes by metadata with any characters, like E2B’s own SDK', async () => {
    const { Sandbox: Vendors } = await import('e2b')
    const options = { apiKey: double.apiKey, apiUrl: double.origin, sandboxUrl: double.origin }
    const metadata = { 'key &=+%': 'a&b=c d+e%41 é' }
    const made = await Vendors.create({ ...options, metadata, timeoutMs: 60_000 })
    const page = await Vendors.list({ ...options, query: { metadata } }).nextItems()
    const ours = createControlApi({
      origin: double.origin,
      apiKey: async () => double.apiKey,
      timeoutMs: 10_000,
    })
    const found = [
      page.map(({ sandboxId }) => sandboxId),
      (await ours.list(metadata)).map(({ sandboxID }) => sandboxID),
    ]
    await made.kill()
    expect(found).toEqual([[made.sandboxId], [made.sandboxId]])
  })

  it('gives commands the environment of sandbox and call, and refuses unknown users', async () => {
    const { Sandbox: Vendors, AuthenticationError } = await import('e2b')
    const options = { apiKey: double.apiKey, apiUrl: double.origin, sandboxUrl: double.origin }
    const sandbox = await Vendors.create({
      ...options,
      envs: { A: 'sandbox', B: 'sandbox' },
      timeoutMs: 60_000,
    })
    try {
      const envs = { B: 'call', E2B_SANDBOX_ID: 'forged' }
      const { stdout } = await sandbox.commands.run('echo $A $B $E2B_SANDBOX_ID', { envs })
      expect(stdout).toBe(`sandbox call ${sandbox.sandboxId}\n`)
      expect((await sandbox.commands.run('id -un', { user: 'user' })).stdout).toBe('user\n')
      await expect(sandbox.commands.run('true', { user: 'nobody-here' })).rejects.toBeInstanceOf(
        AuthenticationError,
      )
      await expect(sandbox.files.write('a', 'b', { user: 'nobody-here' })).rejects.toThrow('unknown user')
    } finally {
      await sandbox.kill()
    }
  })

  it('has a double that answers every call of envd as published', async () => {
    const created = await createControlApi({
      origin: double.origin,
      apiKey: async () => double.apiKey,
      timeoutMs: 10_000,
    }).create({ template: 'base', lifeMs: 60_000, metadata: {} }, AbortSignal.timeout(20_000))
    const { headers } = envdAddress(created, { domain: 'e2b.app', sandbox_url: double.origin })
    async function asked(
      method: string,
      path: string,
      message?: unknown,
      type = 'application/json',
    ): Promise<unknown> {
      const response = await fetch(double.origin + path, {
        method,
        headers: { ...headers, 'Content-Type': type },
        ...(message === undefined ? {} : { body: JSON.stringify(message) }),
      })
      const text = await response.text()
      const body: unknown = text === '' ? undefined : JSON.parse(text)
      E2B_ENVD.checkAnswer(method, path.split('?')[0] ?? '', response.status, body)
      return body
    }
    try {
      await asked('GET', '/health')
      await asked('GET', '/envs')
      await asked('POST', '/files?path=d/a.txt', 'content', 'application/octet-stream')
      const watcher = await asked('POST', '/filesystem.Filesystem/CreateWatcher', { path: 'd' })
      const events = '/filesystem.Filesystem/GetWatcherEvents'
      expect(await asked('POST', events, watcher)).toEqual({})
      await asked('POST', '/files?path=d/a.txt', 'changed', 'application/octet-stream')
      expect(await asked('POST', events, watcher)).toMatchObject({
        events: expect.arrayContaining([{ name: 'a.txt', type: 'EVENT_TYPE_WRITE' }]) as unknown,
      })
      expect(await asked('POST', '/filesystem.Filesystem/RemoveWatcher', watcher)).toEqual({})
      expect(await asked('POST', events, watcher)).toMatchObject({ code: 'not_found' })
      for (const [call, message] of [
        ['Stat', { path: 'd/a.txt' }],
        ['Stat', { path: 'absent' }],
        ['MakeDir', { path: 'e' }],
        ['MakeDir', { path: 'e' }],
        ['Move', { source: 'd/a.txt', destination: 'e/b.txt' }],
        ['ListDir', { path: '.', depth: 2 }],
        ['Remove', { path: 'e' }],
      ] as const)
        await asked('POST', `/filesystem.Filesystem/${call}`, message)
      const watch = await fetch(`${double.origin}/filesystem.Filesystem/WatchDir`, {
        method: 'POST',
        headers: { ...headers, 'Content-Type': 'application/connect+json', 'Connect-Timeout-Ms': '1000' },
        body: new Uint8Array(encodeMessage({ path: 'd' })),
      })
      await asked('POST', '/files?path=d/new.txt', 'content', 'application/octet-stream')
      for await (const { isLast, json } of decodeMessages(watch.body ?? expect.fail('no stream')))
        if (isLast) expect(json).toMatchObject({ error: { code: 'deadline_exceeded' } })
        else expect(watchEvent.safeParse(json).error).toBeUndefined()
      const stream = await fetch(`${double.origin}/process.Process/Start`, {
        method: 'POST',
        headers: { ...headers, 'Content-Type': 'application/connect+json' },
        body: new Uint8Array(encodeMessage({ process: { cmd: '/bin/cat' }, tag: 't', stdin: true })),
      })
      const messages = decodeMessages(stream.body ?? expect.fail('no stream'))
      const { value: first } = await messages.next()
      expect(processEvent.safeParse(first?.json).success).toBe(true)
      const process = { tag: 't' }
      expect(await asked('POST', '/process.Process/List', {})).toMatchObject({ processes: [{ tag: 't' }] })
      await asked('POST', '/process.Process/SendInput', { process, input: { stdin: 'YQ==' } })
      await asked('POST', '/process.Process/CloseStdin', { process })
      for await (const { isLast, json } of messages)
        expect(isLast ? json : processEvent.safeParse(json).error).toEqual(isLast ? {} : undefined)
    } finally {
      await double.end(created.sandboxID)
    }
  })

  it('has a double that E2B’s own SDK cannot tell from the service', async () => {
    const { Sandbox: Vendors, CommandExitError } = await import('e2b')
    const options = { apiKey: double.apiKey, apiUrl: double.origin, sandboxUrl: double.origin }
    const sandbox = await Vendors.create({ ...options, metadata: { who: 'sdk' }, timeoutMs: 60_000 })
    expect(await sandbox.isRunning()).toBe(true)
    expect(await sandbox.commands.run('echo out; echo err >&2; pwd')).toMatchObject({
      exitCode: 0,
      stdout: 'out\n/home/user\n',
      stderr: 'err\n',
    })
    await expect(sandbox.commands.run('exit 3')).rejects.toBeInstanceOf(CommandExitError)
    await sandbox.files.write('notes/a.txt', 'grüße')
    expect(await sandbox.files.read('notes/a.txt')).toBe('grüße')
    expect(await sandbox.files.exists('notes/b.txt')).toBe(false)
    expect([await sandbox.files.makeDir('d'), await sandbox.files.makeDir('d')]).toEqual([true, false])
    const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
    await sandbox.commands.sendStdin(cat.pid, 'abc')
    expect((await sandbox.commands.list()).map(({ pid }) => pid)).toContain(cat.pid)
    expect(await cat.kill()).toBe(true)
    const page = await Vendors.list({ ...options, query: { metadata: { who: 'sdk' } } }).nextItems()
    expect(page.map(({ sandboxId }) => sandboxId)).toEqual([sandbox.sandboxId])
    expect(await sandbox.kill()).toBe(true)
    expect(await sandbox.isRunning()).toBe(false)
  })
})
