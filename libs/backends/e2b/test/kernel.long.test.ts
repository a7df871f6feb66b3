/** Python in the template's own code interpreter: value, rich results, and the same exits as without it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Backend, Exit, Sandbox, SandboxSpec } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { startE2bDouble, type E2bDouble } from '../double/e2b-double.ts'
import { createE2bBackend } from '../src/index.ts'
import { redisSessions, type TestSessions, jobSpec, python } from '@cofferdam/backend-remote/testing'

const SETTINGS = { template: 'code-interpreter-v1', code_interpreter: true }

needs('bwrap').describe('e2b with a code interpreter', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-e2b-'))
  let sessions: TestSessions
  let double: E2bDouble
  let backend: Backend

  const made = (settings: Parameters<typeof createE2bBackend>[0]): Backend =>
    createE2bBackend(
      {
        api_key_file: join(folder, 'key'),
        api_url: double.origin,
        sandbox_url: double.origin,
        ...settings,
      },
      { sessions },
    )
  beforeAll(async () => {
    double = await startE2bDouble()
    sessions = await redisSessions()
    writeFileSync(join(folder, 'key'), double.apiKey)
    backend = made(SETTINGS)
  })
  afterEach(() => {
    expect(double.running(), 'left at the vendor').toEqual([])
  })
  afterAll(async () => {
    await backend[Symbol.asyncDispose]()
    await double[Symbol.asyncDispose]()
    await sessions[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  const open = (source: string, change: Partial<SandboxSpec> = {}): Promise<Sandbox> =>
    backend.open({ ...jobSpec('e2be2be2be2b', python(source)), ...change }, AbortSignal.timeout(60_000))
  async function run(
    sandbox: Sandbox,
    source: string,
    onOutput = (_text: string): void => undefined,
  ): Promise<{ exit: Exit; value: unknown; stdout: string; stderr: string }> {
    const said = { stdout: '', stderr: '' }
    const exit = await sandbox.run(python(source), {
      onOutput(stream, chunk) {
        said[stream] += Buffer.from(chunk).toString()
        onOutput(said.stdout)
      },
      maxOutputBytes: { stdout: 1 << 20, stderr: 1 << 20 },
      signal: AbortSignal.timeout(60_000),
    })
    return { exit, value: exit.valueJson === undefined ? undefined : JSON.parse(exit.valueJson), ...said }
  }
  /** Interrupts a program at its first output only. The program may print more before it ends. */
  const onceUp = (sandbox: Sandbox) => (text: string) => void (text === 'up\n' && sandbox.interrupt())
  /** Runs one program in its own sandbox. */
  async function once(source: string, change?: Partial<SandboxSpec>) {
    await using sandbox = await open(source, change)
    return await run(sandbox, source)
  }

  it('returns the exact last expression, whatever its text looks like and whatever `_` is', async () => {
    for (const [source, value] of [
      ["print('é漢😀')\n{'a': [1, None, 'x']}", { a: [1, null, 'x'] }],
      ["for _ in range(3): pass\n'1'", '1'],
      ['x = 1', undefined],
      ['1j', '1j'],
    ] as const) {
      const ran = await once(source)
      expect([ran.exit.exitCode, ran.value, ran.stderr]).toEqual([0, value, ''])
      expect(ran.stdout).toBe(source.startsWith('print') ? 'é漢😀\n' : '')
    }
  })

  it('stores all forms of results as files', async () => {
    const source = `
class Chart:
    def __repr__(self): return 'a chart'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_html_(self): return '<b>é</b>'
    def _repr_mimebundle_(self, include=None, exclude=None): return {'e2b/chart': {'type': 'line'}}
display(Chart())
1 + 1`
    await using sandbox = await open(source)
    expect((await run(sandbox, source)).value).toBe(2)
    const listed = await sandbox.list(['results/*'], 100)
    expect(listed.map(({ path }) => path)).toEqual(
      ['1.chart.json', '1.html', '1.png', '1.txt', '2.txt'].map((name) => `results/${name}`),
    )
    expect(Buffer.from(await sandbox.read('results/1.png', 100)).toString('latin1')).toBe('\x89PNG')
    expect(Buffer.from(await sandbox.read('results/1.html', 100)).toString()).toBe('<b>é</b>')
  })

  it('reports how a program ended', async () => {
    const raised = await once("raise ValueError('no')")
    expect([raised.exit.exitCode, raised.value]).toEqual([1, undefined])
    expect(raised.stderr).toContain('ValueError: no')
    expect((await once('import sys; sys.exit(7)')).exit.exitCode).toBe(7)
    const died = await once('import os; os._exit(3)')
    expect([died.exit.exitCode, died.stderr]).toEqual([
      1,
      expect.stringContaining('UnexpectedEndOfExecution'),
    ])
  })

  it('gives a program its folder, files, arguments and environment', async () => {
    const source =
      "import os, sys\nprint(open('given').read(), os.environ['GIVEN'], sys.argv[1:])\nopen('made', 'w').write('x')"
    await using sandbox = await open(source, { env: { GIVEN: "it's" } })
    await sandbox.write([{ path: 'given', bytes: Buffer.from('file') }])
    expect((await run(sandbox, source)).stdout).toBe("file it's []\n")
    expect(Buffer.from(await sandbox.read('made', 10)).toString()).toBe('x')
  })

  it('passes bytes that are text, and hides the service’s environment from programs', async () => {
    const source = `
import json, os, shutil, sys
sys.stdout.buffer.write('é漢'.encode()[:4])
sys.stdout.buffer.write('é漢'.encode()[4:])
print(json.dumps([name for name in os.environ if name.startswith('E2B_') or name in ('code', 'message')]))`
    expect((await once(source)).stdout).toBe('é漢[]\n')
  })

  it('lets a program that is stopped clean up, print and choose its exit code', async () => {
    const source =
      "import sys, time\ntry:\n  print('up')\n  while True: time.sleep(0.01)\nexcept KeyboardInterrupt:\n  print('down')\n  sys.exit(7)"
    await using sandbox = await open(source)
    const { exit, stdout } = await run(sandbox, source, onceUp(sandbox))
    expect([exit.exitCode, stdout]).toEqual([7, 'up\ndown\n'])
  })

  it('ends a session whose program ignores an interrupt', async () => {
    const source =
      "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('up')\nwhile True: time.sleep(0.01)"
    const wish = jobSpec('e2be2be2be2b', python(source))
    const sandbox = await open(source, {
      reuse: 'session',
      session: { key: 'stubborn', scope: 'interpreter', idleMs: null },
      // SIGTERM follows SIGINT after half of the time between the two deadlines, a quarter of a second.
      limits: { ...wish.limits, soft_timeout_ms: 1000, hard_timeout_ms: 1500 },
    })
    const { exit } = await run(sandbox, source, onceUp(sandbox))
    expect(exit.signal).toBe('SIGTERM')
    await sandbox[Symbol.asyncDispose]()
    expect(await sessions.find({ tenantId: 't', backend: 'e2b', key: 'stubborn' })).toBeNull()
  })

  it('stops an interrupted program, and streams its output until then', async () => {
    const source = "import time\nprint('up')\nwhile True: time.sleep(0.01)"
    await using sandbox = await open(source)
    const { exit, stdout } = await run(sandbox, source, onceUp(sandbox))
    expect([exit.exitCode, stdout]).toEqual([130, 'up\n'])
  })

  it('keeps variables in a session on any worker, but neither environment nor results', async () => {
    const change: Partial<SandboxSpec> = {
      reuse: 'session',
      session: { key: 'k', scope: 'interpreter', idleMs: null },
    }
    await once("import os\nx = 20\nkept = os.environ['GIVEN']\n'shown'", { ...change, env: { GIVEN: 'a' } })
    const other = made(SETTINGS)
    const source = "print(x + 1, kept, os.environ.get('GIVEN'))"
    await using sandbox = await other.open(
      { ...jobSpec('e2be2be2be2b', python(source)), ...change },
      AbortSignal.timeout(60_000),
    )
    expect(await run(sandbox, source)).toMatchObject({
      stdout: '21 a None\n',
      exit: { interpreter: 'kept' },
    })
    expect(await sandbox.list(['results/*'], 100)).toEqual([])
    sandbox.retire?.()
    await other[Symbol.asyncDispose]()
  })

  it('waits for an interpreter that is not ready yet', async () => {
    double.fault({ late_interpreters: 2 })
    expect((await once('1 + 1')).value).toBe(2)
  })

  it('opens no sandbox if the template has no code interpreter', async () => {
    const plain = made({ code_interpreter: true })
    const spec = jobSpec('e2be2be2be2b', python('1'))
    await expect(plain.open(spec, AbortSignal.timeout(60_000))).rejects.toMatchObject({
      code: 'sandbox_open_failed',
    })
    await plain[Symbol.asyncDispose]()
  })
})
