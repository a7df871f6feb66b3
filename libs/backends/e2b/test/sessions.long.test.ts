/** Sessions at E2B: one sandbox per session for all workers, and workers that die at any point of a turn. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import {
  CofferdamError,
  StopReason,
  type Backend,
  type Sandbox,
  type SandboxSpec,
  type SessionEntry,
} from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { hostProcesses } from '@cofferdam/sandbox/conformance'
import { NO_FAULTS } from '../double/faults.ts'
import { startE2bDouble, type E2bDouble } from '../double/e2b-double.ts'
import { createE2bBackend } from '../src/index.ts'
import { redisSessions, type TestSessions, jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const NAME = { tenantId: 't', backend: 'e2b', key: 'k' }
const IN_SESSION = {
  reuse: 'session',
  session: { key: 'k', scope: 'interpreter', idleMs: null },
} as const satisfies Partial<SandboxSpec>
/** Prints how often it has run in this session. */
const COUNT = "n = globals().get('n', 0) + 1\nprint(n)"
const HANG = "import time\nprint('up', flush=True)\ntime.sleep(600)"
const OF_FILES = {
  reuse: 'session',
  session: { key: 'k', scope: 'files', idleMs: null },
} as const satisfies Partial<SandboxSpec>
const LOOK = `
import os
print([sorted(os.listdir(path)) for path in ('/tmp', '/dev/shm', '.')])`
/** Leaves a process in its own session and group that always changes its pid and writes where it can. */
const leaves = (mark: string): string => `
import os, sys
daemon = '''
import os, sys
def everywhere():
    for folder in ('/tmp', '/dev/shm', '.'):
        open(folder + '/' + sys.argv[1], 'a').write('x')
everywhere()
os.write(int(sys.argv[2]), b'up')
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    everywhere()
'''
heard, told = os.pipe()
os.set_inheritable(told, True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.execv(sys.executable, [sys.executable, '-c', daemon, '${mark}', str(told)])
    os._exit(0)
os.read(heard, 2)
${LOOK}`
const DYING = fileURLToPath(new URL('worker-that-dies.ts', import.meta.url))

needs('bwrap').describe('e2b', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-e2b-'))
  const keyFile = join(folder, 'key')
  let double: E2bDouble
  let sessions: TestSessions
  let one: Backend
  let two: Backend

  const settings = () => ({ api_key_file: keyFile, api_url: double.origin, sandbox_url: double.origin })
  const spec = (change: Partial<SandboxSpec> = IN_SESSION): SandboxSpec => ({
    ...jobSpec('e2be2be2be2b', python('')),
    ...change,
  })
  const open = (by: Backend, change?: Partial<SandboxSpec>): Promise<Sandbox> =>
    by.open(spec(change), AbortSignal.timeout(60_000))
  /** What the counting program prints in one turn, and the sandbox's session. */
  async function count(by: Backend): Promise<{ said: string; session: Sandbox['session'] }> {
    await using sandbox = await open(by)
    return { said: await printed(sandbox, python(COUNT)), session: sandbox.session }
  }
  const running = (): string[] => double.running().map(({ id }) => id)

  beforeAll(async () => {
    double = await startE2bDouble()
    sessions = await redisSessions()
    writeFileSync(keyFile, double.apiKey)
  })
  beforeEach(() => {
    one = createE2bBackend(settings(), { sessions })
    two = createE2bBackend(settings(), { sessions })
  })
  afterEach(async () => {
    double.fault(NO_FAULTS)
    const entry = await sessions.find(NAME)
    if (entry !== null) await two.endSession?.(NAME, entry, AbortSignal.timeout(30_000))
    await sessions.clear()
    expect(running(), 'left at the vendor').toEqual([])
    await Promise.all([one, two].map((backend) => backend[Symbol.asyncDispose]()))
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
    await sessions[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  describe('a session', () => {
    it('continues at another worker, and any worker can end it', async () => {
      const first = await count(one)
      const second = await count(two)
      expect([first.said, second.said]).toEqual(['1\n', '2\n'])
      expect(second.session).toEqual({ id: first.session?.id, fresh: false })
      const entry = await sessions.find(NAME)
      if (entry === null) return expect.fail('it is not in the registry')
      expect(running()).toEqual([entry.handle['sandbox']])
      expect(await one.endSession?.(NAME, entry, AbortSignal.timeout(30_000))).toBe(true)
      expect(await one.endSession?.(NAME, entry, AbortSignal.timeout(30_000))).toBe(false)
    })

    it('does not delay a caller that stops waiting for its end', async () => {
      await count(one)
      const entry = (await sessions.find(NAME)) ?? expect.fail('it is not in the registry')
      double.fault({ hold_kills: 1 })
      const stop = new AbortController()
      const ending = one.endSession?.(NAME, entry, stop.signal)
      const asked = `/sandboxes/${String(entry.handle['sandbox'])}`
      await expect.poll(() => double.requests.includes(asked), { timeout: 20_000 }).toBe(true)
      stop.abort(new StopReason('drain'))
      await expect(ending).rejects.toBe(stop.signal.reason)
      await expect(one.endSession?.(NAME, entry, stop.signal)).rejects.toBe(stop.signal.reason)
      expect(double.requests.filter((path) => path === asked)).toHaveLength(1)
      expect(running()).toHaveLength(1)
    })

    it('serves two competing workers one after the other, in one sandbox', async () => {
      const before = double.created
      const said = await Promise.all([count(one), count(two), count(one), count(two)])
      expect(said.map((turn) => turn.said).toSorted()).toEqual(['1\n', '2\n', '3\n', '4\n'])
      expect(new Set(said.map(({ session }) => session?.id)).size).toBe(1)
      expect(double.created - before).toBe(1)
    })

    it('has neither key nor token in its entry', async () => {
      await count(one)
      const entry = await sessions.find(NAME)
      const sandbox = String(entry?.handle['sandbox'])
      const asked = await fetch(`${double.origin}/v2/sandboxes/${sandbox}/connect`, {
        method: 'POST',
        headers: { 'X-API-KEY': double.apiKey },
        body: '{}',
      })
      const { envdAccessToken } = (await asked.json()) as { envdAccessToken: string }
      expect(envdAccessToken).toMatch(/^[0-9a-f]{40}$/)
      expect(JSON.stringify(entry)).not.toContain(envdAccessToken)
      expect(JSON.stringify(entry)).not.toContain(double.apiKey)
    })

    it('stops at once if its lease is lost, and is not left behind', async () => {
      const sandbox = await open(one)
      const isUp = Promise.withResolvers<undefined>()
      const lost = expect(
        sandbox.run(python(HANG), {
          onOutput: () => isUp.resolve(undefined),
          maxOutputBytes: { stdout: 1000, stderr: 1000 },
          signal: AbortSignal.timeout(60_000),
        }),
      ).rejects.toMatchObject({ code: 'fenced' })
      await isUp.promise
      await sessions.expire(NAME)
      await lost
      const next = await count(two)
      expect([next.said, next.session?.fresh]).toEqual(['1\n', true])
      await sandbox[Symbol.asyncDispose]()
      expect(running()).toEqual([(await sessions.find(NAME))?.handle['sandbox']])
    })

    it('starts again with another ID if the vendor ended it between two turns', async () => {
      const first = await count(one)
      await double.end(running()[0] ?? '')
      const second = await count(two)
      expect([second.said, second.session?.fresh]).toEqual(['1\n', true])
      expect(second.session?.id).not.toBe(first.session?.id)
    })

    it('starts again if it could end before the program’s deadline', async () => {
      const short = createE2bBackend({ ...settings(), max_life_ms: 60_000 }, { sessions })
      const turns = [await count(short), await count(short)]
      expect(turns.map(({ said, session }) => [said, session?.fresh])).toEqual([
        ['1\n', true],
        ['1\n', true],
      ])
      // A request for files runs no program, so the rest of the sandbox's life is long enough for it.
      const list = { type: 'files', op: 'list' } as const
      const left = running()
      await (await open(short, { ...IN_SESSION, program: list }))[Symbol.asyncDispose]()
      expect(running()).toEqual(left)
      await short[Symbol.asyncDispose]()
    })

    it('stays unchanged while the service throttles, and is found afterwards', async () => {
      await count(one)
      double.fault({ throttle_connects: 3, retry_after: 0 })
      await expect(open(two)).rejects.toMatchObject({ code: 'backend_unavailable' })
      expect((await count(two)).said).toBe('2\n')
    })

    it('is not joined over a broken stream, nor kept if its lifetime cannot be set', async () => {
      await count(one)
      double.fault({ cut_stream_after: 8 })
      expect((await count(two)).said).toBe('1\n')
      const sandbox = await open(one)
      double.fault({ conflict_timeouts: 1 })
      await sandbox[Symbol.asyncDispose]()
      expect(running()).toEqual([])
      expect(await sessions.find(NAME)).toBeNull()
    })

    it('keeps its idle time after a file request that names none', async () => {
      const waits = { ...IN_SESSION, session: { ...IN_SESSION.session, idleMs: 3_000_000 } }
      await (await open(one, waits))[Symbol.asyncDispose]()
      const list = { type: 'files', op: 'list' } as const
      await (await open(two, { ...IN_SESSION, program: list }))[Symbol.asyncDispose]()
      const entry = await sessions.find(NAME)
      expect((entry?.idleAtMs ?? 0) - (entry?.usedAtMs ?? 0)).toBe(3_000_000)
    })

    it('goes to the next holder if the answer to the write of its entry is lost', async () => {
      const unanswered = createE2bBackend(settings(), {
        sessions: {
          ...sessions,
          async claim(...asked) {
            const lease = await sessions.claim(...asked)
            const keep = lease.keep.bind(lease)
            return Object.assign(lease, {
              async keep(entry: SessionEntry) {
                await keep(entry)
                if (entry.turn === undefined) throw new CofferdamError('queue_unavailable')
              },
            })
          },
        },
      })
      const first = await count(unanswered)
      expect(await count(two)).toEqual({ said: '2\n', session: { id: first.session?.id, fresh: false } })
      await unanswered[Symbol.asyncDispose]()
    })

    it('refuses other limits, and file requests for a missing session', async () => {
      const list = { type: 'files', op: 'list' } as const
      await expect(open(one, { ...IN_SESSION, program: list })).rejects.toMatchObject({
        code: 'session_not_found',
      })
      await count(one)
      const limits = { ...spec().limits, pids: 7 }
      await expect(open(two, { ...IN_SESSION, limits })).rejects.toMatchObject({ code: 'conflict' })
      expect((await count(two)).said).toBe('2\n')
    })
  })

  describe('a session of scope files', () => {
    /** What a program prints in one turn, and the sandbox's session. */
    async function turn(by: Backend, source: string): Promise<{ said: string; session: Sandbox['session'] }> {
      await using sandbox = await open(by, OF_FILES)
      return { said: await printed(sandbox, python(source)), session: sandbox.session }
    }

    it('finds its files at any worker, but no trace of a process that hid from its parents', async () => {
      const mark = `left-${randomUUID()}`
      const first = await turn(one, `open('note', 'w').write('kept')\n${LOOK}`)
      const second = await turn(one, leaves(mark))
      expect(await hostProcesses(mark)).toEqual([])
      const third = await turn(two, LOOK)
      expect([first.said, second.said, third.said]).toEqual([
        `[['work'], [], ['main.py', 'note']]\n`,
        `[['${mark}', 'work'], ['${mark}'], ['${mark}', 'main.py', 'note']]\n`,
        `[['work'], [], ['${mark}', 'main.py', 'note']]\n`,
      ])
      expect(third.session).toEqual({ id: first.session?.id, fresh: false })
    })

    it('starts again if its agent cannot prove that only files are left', async () => {
      // Changes the agent's scheduling policy. This is a change whatever nice value the tests have.
      const first = await turn(one, 'import os\nos.sched_setscheduler(1, os.SCHED_BATCH, os.sched_param(0))')
      expect(running()).toEqual([])
      const second = await turn(two, LOOK)
      expect([second.said, second.session?.fresh]).toEqual([`[['work'], [], ['main.py']]\n`, true])
      expect(second.session?.id).not.toBe(first.session?.id)
    })

    it('hides from a program what it could write to and what listens in the sandbox', async () => {
      const said = await turn(
        one,
        `
import ctypes, os, socket
def may(path):
    try:
        os.close(os.open(path + '/probe', os.O_CREAT | os.O_WRONLY))
        return True
    except OSError:
        return False
print([path for path in ('/', '/etc', '/home/user', '/home/user/.cofferdam', '/run', '/var/tmp', '/dev', '/tmp', '/dev/shm') if may(path)])
print(os.path.exists('/run/jail/socket'), socket.socket().connect_ex(('127.0.0.1', 49983)) != 0)
libc = ctypes.CDLL(None)
print(libc.mq_open(b'/left', os.O_CREAT | os.O_RDWR, 0o600, None), libc.syscall({'x86_64': 248, 'aarch64': 217}[os.uname().machine], b'user', b'left', b'x', 1, -4))`,
      )
      // The program can create neither a message queue nor a key in the user's keyring.
      expect(said.said).toBe(`['/tmp', '/dev/shm']\nFalse True\n-1 -1\n`)
    })
  })

  describe('a worker that is killed', () => {
    /** Kills the worker at the given output or event, and returns the owners of its sandboxes. */
    async function killedAt(
      change: Partial<SandboxSpec>,
      sources: string[],
      time: ((said: Said[]) => boolean) | Promise<unknown>,
      stopBefore: number | null = null,
    ): Promise<SandboxSpec['owner']> {
      const wish = spec(change)
      const given = JSON.stringify({
        settings: settings(),
        redisUrl: sessions.url,
        spec: wish,
        sources,
        stopBefore,
      })
      const child = spawn(process.execPath, [DYING, given], { stdio: ['ignore', 'pipe', 'inherit'] })
      const ended = once(child, 'exit')
      const said: Said[] = []
      const spoken = Promise.withResolvers<undefined>()
      spoken.promise.catch(() => undefined)
      async function hear(): Promise<void> {
        for await (const line of createInterface({ input: child.stdout })) {
          said.push(JSON.parse(line) as Said)
          if (typeof time === 'function' && time(said)) spoken.resolve(undefined)
        }
        spoken.reject(new Error('it ended by itself'))
      }
      const heard = hear()
      try {
        await (typeof time === 'function' ? spoken.promise : time)
      } finally {
        child.kill('SIGKILL')
        await Promise.all([ended, heard])
      }
      return wish.owner
    }
    interface Said {
      printed?: string
      over?: true
      here?: true
    }
    /** Expires the dead worker's lease and returns its entry as it was. */
    async function left(): Promise<SessionEntry> {
      await sessions.expire(NAME)
      const entry = await sessions.find(NAME)
      return entry ?? expect.fail('it kept nothing')
    }
    const nextIsMade = async (): Promise<void> => {
      const before = double.created
      await expect.poll(() => double.created, { timeout: 60_000 }).toBe(before + 1)
    }
    const isUp = (said: Said[]): boolean => said.at(-1)?.printed === 'up\n'

    it('before it learns of the sandbox: the next holder kills the sandbox and starts again', async () => {
      double.fault({ hold_creates: 1 })
      await killedAt(IN_SESSION, [COUNT], nextIsMade())
      const entry = await left()
      expect(entry.handle['sandbox']).toBeUndefined()
      const next = await count(two)
      expect([next.said, next.session?.fresh]).toEqual(['1\n', true])
      expect(running()).toHaveLength(1)
    })

    it('while a program runs: its sandbox is killed, and the program does not run again', async () => {
      await killedAt(IN_SESSION, [COUNT, HANG], isUp)
      const entry = await left()
      expect(running()).toEqual([entry.handle['sandbox']])
      const next = await count(two)
      expect([next.said, next.session?.fresh]).toEqual(['1\n', true])
      expect(running()).toEqual([(await sessions.find(NAME))?.handle['sandbox']])
      expect(running()).not.toContain(entry.handle['sandbox'])
    })

    it('between two turns: the session goes on', async () => {
      await killedAt(IN_SESSION, [COUNT], (words) => words.at(-1)?.over === true)
      await left()
      const next = await count(two)
      expect([next.said, next.session?.fresh]).toEqual(['2\n', false])
    })

    it('after it joined the next turn and before it asked anything: the session goes on', async () => {
      // The worker dies before its fifth write of the entry. The first turn writes it twice at its start and
      // once at its end. The second turn writes it once to check its lease, and then to begin.
      await killedAt(IN_SESSION, [COUNT, COUNT], (words) => words.at(-1)?.here === true, 5)
      await left()
      const next = await count(two)
      expect([next.said, next.session?.fresh]).toEqual(['2\n', false])
    })

    it('in its turn and without a successor: the reaper’s call ends what it left', async () => {
      await killedAt(IN_SESSION, [HANG], isUp)
      const entry = await left()
      expect(await two.endSession?.(NAME, entry, AbortSignal.timeout(30_000))).toBe(true)
    })

    it('without a session: a sweep ends what it left', async () => {
      for (const [held, time] of [
        [1, nextIsMade()],
        [0, isUp],
      ] as const) {
        double.fault({ hold_creates: held })
        const owner = await killedAt({}, [HANG], time)
        expect(running()).toHaveLength(1)
        expect(await two.sweep(owner)).toEqual({ destroyed: 1 })
      }
    })
  })
})
