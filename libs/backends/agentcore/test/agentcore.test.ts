/** Tests of the AgentCore backend besides its calls: starts, interpreters, deadlines, secrets and files. */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { BOUNDS, DEFAULT_LIMITS, type Program } from '@cofferdam/contract'
import { expect, describe, it } from 'vitest'
import { AT_MOST, describeAgentcore, invoke, KEYS, run, writeKeys } from './at-double.ts'
import { python } from '@cofferdam/backend-remote/testing'

/** Leaves one mark per run. */
const MARK = python('open("effect", "a").write("x")\nprint("done")')

describeAgentcore('agentcore', (at) => {
  const { open, backend, effect, sessionOf } = at

  describe('a session', () => {
    it('is started once despite a lost answer, and outlives the deadline by a minute', async () => {
      const before = at.double.sessions.started
      at.double.fault({ operation: 'StartCodeInterpreterSession', kind: 'cut-after' })
      const sandbox = await open(MARK)
      expect(at.double.sessions.started - before).toBe(1)
      expect(sessionOf(sandbox).timeoutSeconds).toBe(Math.ceil(DEFAULT_LIMITS.hard_timeout_ms / 1000) + 60)
    })

    it('leaves nothing at the service if all answers to its start are lost', async () => {
      at.double.fault({ operation: 'StartCodeInterpreterSession', kind: 'cut-after', times: 3 })
      await expect(open(MARK)).rejects.toMatchObject({ code: 'backend_unavailable' })
    })

    it.each([
      ['ServiceQuotaExceededException', 'backend_unavailable'],
      ['AccessDeniedException', 'backend_unavailable'],
      ['ValidationException', 'sandbox_open_failed'],
    ])('that is refused by %s is %s, and its words are kept', async (error, code) => {
      at.double.fault({
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

    it('is stopped if its cell is not ready, and one fresh session is tried', async () => {
      const before = at.double.sessions.started
      at.double.fault(invoke('empty'))
      expect(await run(await open(MARK), MARK)).toMatchObject({ stdout: 'done\n' })
      expect(at.double.sessions.started - before).toBe(2)
      at.double.fault(invoke('http', { error: 'ThrottlingException' }))
      await (await open(MARK))[Symbol.asyncDispose]()
      expect(at.double.sessions.started - before).toBe(3)
      at.double.fault(invoke('truncated', { times: 2 }))
      await expect(open(MARK)).rejects.toMatchObject({
        details: { reason: expect.stringMatching(/^readiness:/) as string },
      })
      expect(at.double.sessions.started - before).toBe(5)
    })

    it.each(['ResourceNotFoundException', 'ConflictException'])(
      'is called again if the service does not know it yet (%s)',
      async (error) => {
        const before = at.double.sessions.started
        at.double.fault(invoke('http', { error }))
        expect(await run(await open(MARK), MARK)).toMatchObject({ stdout: 'done\n' })
        expect(at.double.sessions.started - before).toBe(1)
      },
    )

    it('counts as ready by its marker if calls have no exit codes', async () => {
      at.double.fault(invoke('no-exit-code', { times: 9 }))
      expect(await run(await open(MARK), MARK)).toMatchObject({ exit: { exitCode: 0 }, stdout: 'done\n' })
      expect(at.double.faultsLeft).toMatchObject([{ times: 7 }])
    })

    it('is found in a list whose last page has an empty token', async () => {
      const by = backend()
      await open(MARK, {}, by)
      const operation = 'ListCodeInterpreterSessions'
      at.double.fault({ operation, kind: 'empty-token', times: 9 })
      expect(await by.owners()).toHaveLength(1)
      // One call for each interpreter.
      expect(at.double.faultsLeft).toMatchObject([{ times: 7 }])
    })

    it('runs only in its tenant’s interpreter, and an interpreter that is gone is forgotten', async () => {
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
      expect(at.double.sessions.running().map(({ id }) => id)).toEqual([sandbox.ref.vendorRef])
      await expect(open(MARK, { network: 'public' }, by)).rejects.toMatchObject({
        code: 'interpreter_not_ready',
      })
      await expect(open(MARK, { tenantId: 'other' }, by)).rejects.toMatchObject({
        code: 'interpreter_not_ready',
      })
      await sandbox[Symbol.asyncDispose]()
      at.double.interpreters = new Set()
      await expect(open(MARK, {}, by)).rejects.toMatchObject({ code: 'interpreter_not_ready' })
      at.double.interpreters = null
      expect(forgotten).toEqual(['mine-0123456789'])
    })
  })

  describe('deadlines', () => {
    const limits = { ...DEFAULT_LIMITS, soft_timeout_ms: 2000, hard_timeout_ms: 4500 }

    it('end a program from inside at the soft deadline, and keep its output', async () => {
      const program = python(
        'import time\nprint("up", flush=True)\ntry:\n    time.sleep(60)\nfinally:\n    print("cleaned")',
      )
      const { exit, stdout } = await run(await open(program, { limits }), program)
      expect(stdout).toBe('up\ncleaned\n')
      expect(exit.exitCode).not.toBe(0)
    })

    it('kill a program that ignores the soft deadline, before the hard one', async () => {
      const program = python(
        'import signal, time\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\nprint("up", flush=True)\ntime.sleep(60)',
      )
      const { exit, stdout } = await run(await open(program, { limits }), program)
      expect({ signal: exit.signal, stdout }).toEqual({ signal: 'SIGKILL', stdout: 'up\n' })
    })

    it('end a program with its session, and the error names that reason', async () => {
      const program = python('import time\ntime.sleep(60)')
      const sandbox = await open(program)
      const before = at.double.calls.length
      const ended = expect(run(sandbox, program)).rejects.toMatchObject({
        code: 'sandbox_lost',
        details: { reason: 'session_timeout' },
      })
      await expect.poll(() => at.double.calls.length, AT_MOST).toBeGreaterThan(before)
      await sessionOf(sandbox).end('expired')
      await ended
    })

    it('are not the reported reason if somebody stops the session: the program is lost', async () => {
      const program = python('open("effect", "a").write("x")\nimport time\ntime.sleep(60)')
      const sandbox = await open(program)
      const ended = expect(run(sandbox, program)).rejects.toMatchObject({
        code: 'sandbox_lost',
        details: { reason: 'session_lost' },
      })
      await expect.poll(() => effect(sandbox), AT_MOST).toBe('x')
      await sessionOf(sandbox).end('stopped')
      await ended
    })

    it('stop the session when nobody waits any more', async () => {
      const program = python('import time\ntime.sleep(60)')
      const sandbox = await open(program)
      const stop = new AbortController()
      const before = at.double.calls.length
      const running = run(sandbox, program, stop.signal)
      const reason = new Error('the hard deadline')
      const ended = expect(running).rejects.toBe(reason)
      await expect.poll(() => at.double.calls.length, AT_MOST).toBeGreaterThan(before)
      stop.abort(reason)
      await ended
      await expect.poll(() => at.double.sessions.running(), AT_MOST).toEqual([])
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
      at.double.fault({
        operation: 'StartCodeInterpreterSession',
        kind: 'http',
        error: 'AccessDeniedException',
        message: `key ${KEYS.accessKeyId}`,
      })
      const refused = await open(program).catch((error: unknown) => error)
      at.double.fault(invoke('cut-after', { times: 9 }))
      const lost = await run(await open(program).catch(() => sandbox), program).catch(
        (error: unknown) => error,
      )
      const told = [refused, lost].map((error) => [
        String(error),
        JSON.stringify((error as { details?: unknown }).details),
      ])
      const bodies = at.double.calls.map(({ text }) => text)
      const all = JSON.stringify([stdout, sandbox.ref, told, at.logged, bodies], (_name, value: unknown) =>
        value instanceof Error ? [value.message, value.stack] : value,
      )
      expect(all).not.toContain(KEYS.secretAccessKey)
      expect(JSON.stringify([stdout, sandbox.ref, told, bodies])).not.toContain(KEYS.accessKeyId)
    })

    it('of a request are redacted in every form before they leave the sandbox', async () => {
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

  it('writes and reads files although answers are lost', async () => {
    const sandbox = await open(MARK)
    await sandbox.write([{ path: 'a', bytes: Buffer.from('bytes') }])
    at.double.fault(invoke('cut-after', { tool: 'writeFiles' }), invoke('cut-before', { tool: 'writeFiles' }))
    expect((await run(sandbox, MARK)).stdout).toBe('done\n')
    at.double.fault(invoke('cut-after'), invoke('empty'))
    expect(Buffer.from(await sandbox.read('a', 10)).toString()).toBe('bytes')
    expect(at.double.faultsLeft).toEqual([])
  })

  it('carries the largest allowed request in one call', async () => {
    const half = Buffer.alloc(BOUNDS.fileBytes, 'ab')
    const before = at.double.calls.length
    const sandbox = await open(MARK)
    await sandbox.write([
      { path: 'one', bytes: half },
      { path: 'two', bytes: half },
    ])
    expect(2 * BOUNDS.fileBytes).toBe(BOUNDS.filesTotalBytes)
    const back = await sandbox.read('two', BOUNDS.fileBytes)
    expect(Buffer.compare(half, back)).toBe(0)
    expect(at.double.calls.slice(before).filter(({ tool }) => tool === 'writeFiles').length).toBe(1)
  })

  it.each<[string, Program, object]>([
    ['a cell', MARK, {}],
    ['a command', { type: 'script', language: 'bash', source: 'echo done' }, {}],
    ['a task', MARK, { call_max_ms: 1000 }],
  ])('reports the service’s own execution time of %s', async (_carrier, program, config) => {
    const sandbox = await open(program, {}, backend(config))
    const { exit } = await run(sandbox, program)
    // In seconds; every program takes longer than zero.
    expect(exit.serviceExecutionTime).toBeGreaterThan(0)
    expect(exit.serviceExecutionTime).toBeLessThan(exit.usage.wall_ms / 1000)
  })

  it('sends the program’s span as parent with its calls for an execution', async () => {
    const span = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const program = python('import os\nprint(os.environ["TRACEPARENT"])')
    const before = at.double.calls.length
    for (const TRACEPARENT of [span, 'no span\r\nx: y']) {
      const sandbox = await open(program, { env: { TRACEPARENT } })
      expect((await run(sandbox, program)).exit.exitCode).toBe(0)
    }
    const told = at.double.calls.slice(before).filter(({ traceparent }) => traceparent !== '')
    expect(told.map(({ operation, traceparent }) => [operation, traceparent])).toEqual([
      ['StartCodeInterpreterSession', span],
      ['InvokeCodeInterpreter', span],
    ])
  })

  it('reads the credentials file once for many calls', async () => {
    const keys = join(at.folder, 'read-once')
    writeKeys(keys)
    const reading = backend({ credentials_file: keys })
    await open(python('print(1)'), {}, reading)
    rmSync(keys)
    const program = python('print(2)')
    expect(await run(await open(program, {}, reading), program)).toMatchObject({ stdout: '2\n' })
  })

  it('names the problem of a bad credentials file', async () => {
    writeFileSync(join(at.folder, 'wrong'), '[default]\nnothing = canary-that-stays\n')
    for (const [file, words] of [
      ['absent', 'cannot be read'],
      ['wrong', 'holds no keys'],
    ] as const) {
      const probed = await backend({ credentials_file: join(at.folder, file) }).probe(
        AbortSignal.timeout(20_000),
      )
      expect(probed).toMatchObject({ ok: false, why: expect.stringContaining(words) as string })
      expect(JSON.stringify(probed)).not.toContain('canary')
    }
  })
})
