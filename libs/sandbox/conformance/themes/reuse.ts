/**
 * Sandboxes for several executions of one session or tenant. They keep what the scope promises. Everything
 * else that a program left, at any place, is gone.
 */
import { randomBytes } from 'node:crypto'
import {
  DEFAULT_LIMITS,
  StopReason,
  type Program,
  type Sandbox,
  type SessionScope,
} from '@cofferdam/contract'
import { afterEach, expect, test } from 'vitest'
import { hostProcesses, type Harness, type SpecChange } from '../harness.ts'

const python = (source: string): Program => ({ type: 'script', language: 'python', source })

/** Leaves something wherever a program can write, and prints where that worked. */
const leaveEverywhere = (marker: string, key: number): Program =>
  python(`
import ctypes, json, os, subprocess, sys
left = []
def leave(name, work):
    try:
        work()
        left.append(name)
    except OSError:
        pass
def shared_memory():
    if ctypes.CDLL(None, use_errno=True).shmget(${key}, 4096, 0o1666) < 0:
        raise OSError('shmget')
leave('file', lambda: open('note.txt', 'w').write('kept'))
leave('deep file', lambda: (os.makedirs('a/b/c', mode=0o700), open('a/b/c/note.txt', 'w').write('kept')))
leave('tmp', lambda: open('/tmp/${marker}', 'w').write('x'))
leave('home', lambda: open(os.path.expanduser('~/${marker}'), 'w').write('x'))
leave('shm', lambda: open('/dev/shm/${marker}', 'w').write('x' * 100000))
leave('ipc', shared_memory)
def queue():
    if ctypes.CDLL('librt.so.1').mq_open(b'/${marker}', os.O_RDWR | os.O_CREAT, 0o600, None) < 0:
        raise OSError('mq_open')
leave('queue', queue)
leave('process', lambda: subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '${marker}']))
leave('daemon', lambda: subprocess.Popen(
    [sys.executable, '-c', 'import signal, time\\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\\ntime.sleep(600)', '${marker}'],
    start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
os.environ['${marker}'] = 'x'
os.umask(0o777)
os.chdir('/')
print(json.dumps(left), flush=True)
os._exit(0)
`)

/** Looks for everything that `leaveEverywhere` leaves. */
const look = (marker: string, key: number): Program =>
  python(`
import ctypes, json, os
found = []
def seen(name, there):
    if there:
        found.append(name)
seen('file', os.path.exists('note.txt'))
seen('deep file', os.path.exists('a/b/c/note.txt'))
seen('tmp', os.path.exists('/tmp/${marker}'))
seen('home', os.path.exists(os.path.expanduser('~/${marker}')))
seen('shm', os.path.exists('/dev/shm/${marker}'))
seen('ipc', ctypes.CDLL(None).shmget(${key}, 0, 0) >= 0)
seen('queue', ctypes.CDLL('librt.so.1').mq_open(b'/${marker}', os.O_RDWR, 0o600, None) >= 0)
for pid in os.listdir('/proc'):
    if pid.isdigit() and int(pid) != os.getpid():
        try:
            seen('process', b'${marker}' in open('/proc/' + pid + '/cmdline', 'rb').read())
        except OSError:
            pass
seen('environment', '${marker}' in os.environ)
mask = os.umask(0o022)
seen('umask', mask != 0o022)
seen('cwd', os.getcwd() == '/')
print(json.dumps(found))
`)

export function reuse(h: Harness): void {
  const { capabilities, backend, programs } = h
  const scopes = capabilities.sessions
  if (scopes.length === 0 || !capabilities.languages.includes('python')) return

  // An idle cell outlives its test. If each test has an owner of its own, sweep the cells here.
  afterEach(async () => {
    if (h.options.warmOwner === undefined) await backend.sweep(h.owner())
  })

  const newKey = (): string => randomBytes(6).toString('hex')
  const session = (key: string, scope: SessionScope, change: SpecChange = {}): SpecChange => ({
    reuse: 'session',
    session: { key, scope, idleMs: null },
    ...change,
  })
  /** One execution from open to dispose. */
  async function turn(
    program: Program,
    change: SpecChange,
  ): Promise<{
    stdout: string
    stderr: string
    code: number | null
    session: Sandbox['session']
    warm: boolean
  }> {
    await using sandbox = await h.open(program, change)
    const { exit, stdout, stderr } = await h.run(sandbox, program)
    return {
      stdout: stdout.toString(),
      stderr: stderr.toString(),
      code: exit.exitCode,
      session: sandbox.session,
      warm: sandbox.warm,
    }
  }

  const kept: [string, SpecChange, string[]][] = [
    ['files', session(newKey(), 'files'), ['file', 'deep file']],
    ['none', session(newKey(), 'none'), []],
  ]
  for (const [scope, change, expected] of kept)
    if (scopes.includes(scope as SessionScope))
      test(`a session of scope ${scope} finds ${expected.length === 0 ? 'nothing' : 'only the files'} of its last execution`, async () => {
        const marker = `left-${newKey()}`
        const key = 1 + (randomBytes(4).readUInt32LE() & 0x3fff_ffff)
        const first = await turn(leaveEverywhere(marker, key), change)
        expect(JSON.parse(first.stdout), first.stderr).toEqual(
          expect.arrayContaining(['file', 'deep file', 'process', 'daemon']),
        )
        if (h.options.visibleOnHost ?? ['none', 'process', 'jail', 'container'].includes(backend.isolation))
          expect(await hostProcesses(marker)).toEqual([])
        const second = await turn(look(marker, key), change)
        expect(JSON.parse(second.stdout), second.stderr).toEqual(expected)
        expect([first.session?.fresh, second.session?.fresh]).toEqual([true, scope === 'none'])
        expect(second.session?.id).toBe(first.session?.id)
        expect(second.warm).toBe(true)
      })

  test('refuses a session that must exist and does not, and continues one that exists', async () => {
    const scope = scopes.includes('files') ? 'files' : 'interpreter'
    const named = { key: newKey(), scope, idleMs: null } as const
    const change: SpecChange = { reuse: 'session', session: named }
    const mustExist: SpecChange = { reuse: 'session', session: { ...named, mustExist: true } }
    const missing = { code: 'session_not_found' }
    await expect(h.open(programs.exit(0), mustExist)).rejects.toMatchObject(missing)
    const begun = await turn(programs.exit(0), change)
    expect((await turn(programs.exit(0), mustExist)).session).toEqual({ id: begun.session?.id, fresh: false })
    const last = await h.open(programs.exit(0), mustExist)
    last.retire?.()
    await last[Symbol.asyncDispose]()
    await expect(h.open(programs.exit(0), mustExist)).rejects.toMatchObject(missing)
  })

  if (scopes.includes('none'))
    test('shows executions of a tenant in a shared sandbox nothing of each other', async () => {
      const change: SpecChange = { reuse: 'tenant', tenantId: `tenant-${newKey()}` }
      const marker = `left-${newKey()}`
      const key = 1 + (randomBytes(4).readUInt32LE() & 0x3fff_ffff)
      const first = await turn(leaveEverywhere(marker, key), change)
      expect(first.session).toBeNull()
      const second = await turn(look(marker, key), change)
      expect([JSON.parse(second.stdout), second.warm, second.session]).toEqual([[], true, null])
    })

  if (scopes.includes('files')) {
    test('keeps one session for every language and for commands', async () => {
      const change = session(newKey(), 'files')
      await turn(programs.writeFile('note.txt', 'kept'), change)
      for (const program of [
        { type: 'command', argv: ['cat', 'note.txt'] },
        { type: 'script', language: 'bash', source: 'cat note.txt' },
        {
          type: 'script',
          language: 'javascript',
          source: `process.stdout.write(require('fs').readFileSync('note.txt'))`,
        },
      ] satisfies Program[])
        expect((await turn(program, change)).stdout).toBe('kept')
    })

    test('runs one execution of a session after the other', async () => {
      const change = session(newKey(), 'files')
      const first = await h.open(programs.exit(0), change)
      let isSecondOpen = false
      const second = h.open(programs.exit(0), change).then((sandbox) => {
        isSecondOpen = true
        return sandbox
      })
      await h.run(first, programs.writeFile('note.txt', 'first'))
      expect(isSecondOpen).toBe(false)
      await first[Symbol.asyncDispose]()
      const { stdout } = await h.run(await second, programs.cat('note.txt'))
      expect(stdout.toString()).toBe('first')
    })

    test('lets a caller stop waiting for a session', async () => {
      const change = session(newKey(), 'files')
      const first = await h.open(programs.exit(0), change)
      const stop = new AbortController()
      const reason = new StopReason('cancelled')
      const waiting = h.open(programs.exit(0), change, stop.signal)
      waiting.catch(() => {})
      stop.abort(reason)
      await expect(waiting).rejects.toBe(reason)
      await first[Symbol.asyncDispose]()
      expect((await turn(programs.exit(3), change)).code).toBe(3)
    })

    test('separates sessions with the same key by tenant', async () => {
      const key = newKey()
      await turn(programs.writeFile('note.txt', 'mine'), session(key, 'files', { tenantId: 'one' }))
      const other = await turn(programs.cat('note.txt'), session(key, 'files', { tenantId: 'two' }))
      expect([other.code === 0, other.session?.fresh]).toEqual([false, true])
    })

    test('ends a session whose execution is killed: the next one is fresh with a new ID', async () => {
      const change = session(newKey(), 'files')
      const before = await turn(programs.writeFile('note.txt', 'kept'), change)
      const program = programs.ignoreInterrupts()
      const stop = new AbortController()
      const sandbox = await h.open(program, change)
      const { ended } = await h.start(sandbox, program, 'ready', { signal: stop.signal })
      stop.abort(new StopReason('hard_deadline'))
      await expect(ended).rejects.toBe(stop.signal.reason)
      await sandbox[Symbol.asyncDispose]()
      const after = await turn(programs.cat('note.txt'), change)
      expect([after.code === 0, after.session?.fresh]).toEqual([false, true])
      expect(after.session?.id).not.toBe(before.session?.id)
    })

    test('keeps a session unchanged after a program that fails or kills itself', async () => {
      const change = session(newKey(), 'files')
      await turn(programs.writeFile('note.txt', 'kept'), change)
      await turn(programs.fail('no'), change)
      if (programs.killSelf !== undefined) await turn(programs.killSelf('SIGKILL'), change)
      expect((await turn(programs.cat('note.txt'), change)).stdout).toBe('kept')
    })

    test('refuses other limits or another scope for an open session', async () => {
      const key = newKey()
      await turn(programs.exit(0), session(key, 'files'))
      const memory_mib = DEFAULT_LIMITS.memory_mib + 64
      await expect(
        h.open(programs.exit(0), session(key, 'files', { limits: { memory_mib } })),
      ).rejects.toMatchObject({ code: 'conflict' })
    })

    test('gives a sandbox object no access to the next turn after its own', async () => {
      const change = session(newKey(), 'files')
      const first = await h.open(programs.exit(0), change)
      await h.run(first, programs.exit(0))
      await first[Symbol.asyncDispose]()
      const program = programs.printThenWait('ready')
      const second = await h.open(program, change)
      const { ended } = await h.start(second, program, 'ready')
      const lost = { code: 'sandbox_lost' }
      await expect(h.run(first, programs.exit(0))).rejects.toMatchObject(lost)
      await expect(first.write([{ path: 'a', bytes: Buffer.from('a') }])).rejects.toMatchObject(lost)
      await expect(first.read('a', 10)).rejects.toMatchObject(lost)
      await expect(first.list(['*'], 10)).rejects.toMatchObject(lost)
      await expect(first.remove('a')).rejects.toMatchObject(lost)
      await expect(first.usage()).rejects.toMatchObject(lost)
      await first.interrupt()
      await first[Symbol.asyncDispose]()
      await second.interrupt()
      expect((await ended).exit.exitCode).not.toBe(0)
    })

    test('runs several programs in one turn with the same files', async () => {
      const sandbox = await h.open(programs.exit(0), session(newKey(), 'files'))
      await h.run(sandbox, programs.writeFile('note.txt', 'kept'))
      expect((await h.run(sandbox, programs.cat('note.txt'))).stdout.toString()).toBe('kept')
      expect((await h.run(sandbox, programs.exit(4))).exit.exitCode).toBe(4)
    })
  }

  if (scopes.includes('interpreter')) {
    test('keeps variables, modules and files between executions in scope interpreter', async () => {
      const change = session(newKey(), 'interpreter')
      const first = await turn(
        python(`import math\ncount = 41\ndef more():\n    return count + 1\nopen('n', 'w').write('f')`),
        change,
      )
      const second = await turn(python(`print(more(), math.floor(2.5), open('n').read())`), change)
      expect(second.stdout, second.stderr).toBe('42 2 f\n')
      expect([first.session?.fresh, second.session]).toEqual([true, { id: first.session?.id, fresh: false }])
    })

    test('keeps earlier variables of an interpreter session after an exception', async () => {
      const change = session(newKey(), 'interpreter')
      await turn(python('count = 1'), change)
      expect((await turn(python('count = 2\nraise RuntimeError("no")'), change)).stderr).toContain(
        'RuntimeError: no',
      )
      expect((await turn(python('print(count)'), change)).stdout).toBe('2\n')
    })

    test('separates two interpreter sessions', async () => {
      await turn(python('secret = 1'), session(newKey(), 'interpreter'))
      const other = await turn(python('print("secret" in globals())'), session(newKey(), 'interpreter'))
      expect(other.stdout).toBe('False\n')
    })
  }
}
