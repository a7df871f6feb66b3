/** What only the E2B backend can do wrong, and E2B's own SDK as witness that the double is E2B. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  DEFAULT_LIMITS,
  type Backend,
  type Program,
  type Sandbox,
  type SandboxSpec,
} from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startE2bDouble, type E2bDouble } from '../../../infra/doubles/e2b/e2b-double.ts'
import { missing } from '../../../infra/doubles/jail.ts'
import { createE2bBackend } from '../src/e2b/index.ts'
import { jobSpec, printed, python } from './remote-run.ts'

const why = missing()
/** Prints its own environment and every other that it may read. */
const LOOK = `
import glob, json, os
def text(path):
    try:
        return open(path, 'rb').read().decode('latin1')
    except OSError:
        return ''
print(json.dumps([dict(os.environ), [text(path) for path in glob.glob('/proc/[0-9]*/environ')]]))`

describe.skipIf(why !== null && process.env['COFFERDAM_REQUIRE'] !== 'all')(`e2b ${why ?? ''}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-e2b-'))
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
    rmSync(folder, { recursive: true })
  })

  const spec = (program: Program): SandboxSpec => jobSpec('e2be2be2be2b', program)
  const open = (program: Program, signal = AbortSignal.timeout(20_000)): Promise<Sandbox> =>
    backend.open(spec(program), signal)

  it('is asked again after it was throttled, with or without being told for how long', async () => {
    for (const retryAfter of [1, null]) {
      const before = double.created
      double.fault({ throttle_creates: 1, retry_after: retryAfter })
      const program = python('print(1 + 1)')
      await using sandbox = await open(program)
      expect(await printed(sandbox, program)).toBe('2\n')
      expect(double.created - before).toBe(1)
    }
  })

  it('gives up after three refusals, or when it is told to come back later than anyone waits', async () => {
    double.fault({ throttle_creates: 3, retry_after: 0 })
    await expect(open(python('1'))).rejects.toMatchObject({ code: 'backend_unavailable' })
    double.fault({ throttle_creates: 1, retry_after: 600 })
    await expect(open(python('1'))).rejects.toMatchObject({ code: 'backend_unavailable' })
    double.fault({ throttle_creates: 0, retry_after: null })
  })

  it('leaves nothing when the answer to a create is lost, and does not create twice', async () => {
    const before = double.created
    double.fault({ drop_creates: 1 })
    await expect(open(python('1'))).rejects.toMatchObject({ code: 'backend_unavailable' })
    expect(double.created - before).toBe(1)
  })

  it('calls a stream that is cut off lost, never a success', async () => {
    const program = python("print('x' * 200_000)")
    // The agent's ready frame fits in; the output does not.
    double.fault({ cut_stream_after: 100_000 })
    await using sandbox = await open(program)
    await expect(printed(sandbox, program)).rejects.toMatchObject({ code: 'sandbox_lost' })
  })

  it('puts together again what comes apart on its way, within characters and messages', async () => {
    const program = python("print('é漢😀' * 50)")
    double.fault({ piece_bytes: 3 })
    await using sandbox = await open(program)
    expect(await printed(sandbox, program)).toBe(`${'é漢😀'.repeat(50)}\n`)
    double.fault({ piece_bytes: 0 })
  })

  it('runs nothing, and leaves nothing, when the service says that a fresh sandbox is going', async () => {
    double.fault({ conflict_timeouts: 1 })
    await expect(open(python('1'))).rejects.toMatchObject({ code: 'sandbox_open_failed' })
  })

  it('loses a sandbox that the vendor ends', async () => {
    const program = python("import time; print('up', flush=True); time.sleep(60)")
    await using sandbox = await open(program)
    const lost = expect(printed(sandbox, program)).rejects.toMatchObject({ code: 'sandbox_lost' })
    await double.end(String(sandbox.ref.handle['sandbox']))
    await lost
  })

  it('is ended by the vendor when nobody does it, soon after its hard deadline', async () => {
    await using sandbox = await open(python('1'))
    const id = String(sandbox.ref.handle['sandbox'])
    const asked = await fetch(`${double.origin}/sandboxes/${id}`, { headers: { 'X-API-KEY': double.apiKey } })
    const { endAt } = (await asked.json()) as { endAt: string }
    const leftMs = Date.parse(endAt) - Date.now()
    expect(leftMs).toBeGreaterThan(DEFAULT_LIMITS.hard_timeout_ms)
    expect(leftMs).toBeLessThan(DEFAULT_LIMITS.hard_timeout_ms + 60_000)
  })

  it('can be swept by another worker: what an owner left is gone', async () => {
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

  it('shows the key neither in the sandbox nor in refs and errors', async () => {
    const program = python(LOOK)
    await using sandbox = await open(program)
    const stdout = await printed(sandbox, program)
    expect(stdout).toContain('PATH')
    expect(stdout + JSON.stringify(sandbox.ref)).not.toContain(double.apiKey)
    writeFileSync(keyFile, 'e2b_wrong_and_secret_0123456789')
    const refused = await open(python('1')).catch((error: unknown) => error)
    const probed = await backend.probe(AbortSignal.timeout(5000))
    writeFileSync(keyFile, double.apiKey)
    expect(refused).toMatchObject({ code: 'backend_unavailable' })
    expect(probed.ok).toBe(false)
    expect(
      JSON.stringify([probed, String(refused), (refused as { details: unknown }).details]),
    ).not.toContain('wrong_and_secret')
  })

  it('says what is wrong with a key file', async () => {
    for (const [path, words] of [
      [join(folder, 'absent'), 'cannot be read'],
      [folder, 'cannot be read'],
    ] as const) {
      const other = createE2bBackend({ api_key_file: path, api_url: double.origin })
      const probed = await other.probe(AbortSignal.timeout(5000))
      expect(probed).toMatchObject({ ok: false, why: expect.stringContaining(words) as string })
      await other[Symbol.asyncDispose]()
    }
  })

  it('stands in for the service so well that E2B’s own SDK cannot tell', async () => {
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
