/** Sessions of `kubernetes` for any worker: two workers, each with a registry on the same Redis. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { createConnection, type Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import {
  newWorkerId,
  SURROUNDINGS,
  type Backend,
  type SandboxSpec,
  type SessionLease,
  type SessionRegistry,
  type SessionScope,
} from '@cofferdam/contract'
import { temporaryFolder, testRedis, type TestServer } from '@cofferdam/embedded/testing'
import { connectRedis } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { startKubernetesDouble, type KubernetesDouble } from '../double/kubernetes-double.ts'
import { hostProcesses, warmSlots } from '@cofferdam/sandbox/conformance'
import { claimName } from '../src/claims.ts'
import { greetAgain } from '../src/greet-pod.ts'
import { createKubernetesBackend } from '../src/index.ts'
import { sessionKey } from '../src/session-keys.ts'
import { keptThrough } from './kept-through.ts'
import { claimUrl, makeClaim, setShutdown } from './cluster.ts'
import { jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const FLEET = '5e551045e551'
const SECRET = 'session-secret-canary-0123456789abcdef'
const NAMESPACE = 'cofferdam-sandboxes'
const TENANT = 't'
/** No renewal happens during a test, so leases end only where a test ends them. */
const LEASE_MS = 3_600_000
/** How long to wait for an action of another process or of the double. */
const SOON = { timeout: 30_000, interval: 20 }

interface Worker {
  backend: Backend
  registry: SessionRegistry
}

needs('bwrap').describe('kubernetes sessions', () => {
  const folder = temporaryFolder('kubernetes-sessions')
  const secretFile = join(folder, 'secret')
  let double: KubernetesDouble
  let server: TestServer
  let redis: ReturnType<typeof connectRedis>
  let one: Worker
  let two: Worker
  const closing: (() => unknown)[] = []

  const settings = () => ({ api_server: double.origin, token_file: null, session_secret_file: secretFile })

  /** A worker: its backend, and a registry with its own connection. `watch` wraps the registry. */
  function worker(watch: (registry: SessionRegistry) => SessionRegistry = (registry) => registry): Worker {
    const connection = connectRedis(server.url, 'worker')
    const registry = createSessionRegistry({ redis: connection, leaseMs: LEASE_MS })
    const backend = createKubernetesBackend(settings(), { sessions: watch(registry) })
    closing.push(async () => {
      await backend[Symbol.asyncDispose]()
      connection.disconnect()
    })
    return { backend, registry }
  }

  beforeAll(async () => {
    writeFileSync(secretFile, SECRET)
    double = await startKubernetesDouble({ replicas: 1 })
    server = await testRedis()
    redis = connectRedis(server.url, 'worker')
    one = worker()
    two = worker()
  })
  afterEach(async () => {
    writeFileSync(secretFile, SECRET)
    await end()
    expect(double.claims(), 'claims that are left').toEqual([])
  })
  afterAll(async () => {
    for (const close of closing) await close()
    redis.disconnect()
    await server.stop()
    await double[Symbol.asyncDispose]()
  })

  let count = 0
  let key = ''
  const name = () => ({ tenantId: TENANT, backend: 'kubernetes', key })
  const newKey = (): void => void (key = `k${(count += 1)}`)

  const specOf = (source: string, scope: SessionScope = 'interpreter'): SandboxSpec => ({
    ...jobSpec(FLEET, python(source)),
    tenantId: TENANT,
    reuse: 'session',
    session: { key, scope, idleMs: null },
  })
  /** Runs one turn of the session. Returns its output and whether the session is new. */
  async function turn({ backend }: Worker, source: string, scope?: SessionScope) {
    await using sandbox = await backend.open(specOf(source, scope), AbortSignal.timeout(40_000))
    const said = await printed(sandbox, python(source))
    return { said, id: sandbox.session?.id, fresh: sandbox.session?.fresh, ref: sandbox.ref }
  }
  const APPEND = "open('n', 'a').write('x')\ntry: x += 1\nexcept NameError: x = 1\nprint(open('n').read(), x)"

  /** Ends the session like the reaper: claims it, ends it at the backend, forgets it. */
  async function end(): Promise<void> {
    await using lease = await claimed(two.registry)
    if (lease.entry === null) return
    await two.backend.endSession?.(lease.name, lease.entry, AbortSignal.timeout(20_000))
    await lease.forget()
  }
  const claimed = (registry: SessionRegistry): Promise<SessionLease> =>
    registry.claim(name(), 'wrk_reaper', { waitMs: 20_000, signal: AbortSignal.timeout(20_000) })
  const entry = async () => {
    const found = await two.registry.find(name())
    if (found === null) throw new Error('no entry')
    return found
  }
  /** Expires the lease of the session's holder, as if its time had passed. */
  const passLease = (): Promise<number> =>
    redis.hset(`cfd:{${TENANT}}:session:kubernetes:${key}`, 'till', '1')
  const podOf = (claim: string): string | undefined =>
    double.running().find((pod) => pod.claim === claim)?.pod
  const addressOf = async (claim: string): Promise<string> => {
    const { status } = (await (await fetch(claimUrl(double, claim))).json()) as {
      status: { sandbox: { podIPs: string[] } }
    }
    return status.sandbox.podIPs[0] ?? ''
  }
  const shutdownInMs = (): number => Date.parse(double.claims()[0]?.shutdownTime ?? '') - Date.now()
  const connected = async (ip: string): Promise<Socket> => {
    const socket = createConnection(7071, ip)
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    return socket
  }

  it('continue at another worker with files and variables after the first one is gone', async () => {
    newKey()
    const first = worker()
    const before = await turn(first, APPEND)
    expect(before).toMatchObject({ said: 'x 1\n', fresh: true })
    await first.backend[Symbol.asyncDispose]()
    expect(await turn(two, APPEND)).toMatchObject({ said: 'xx 2\n', fresh: false, id: before.id })
    expect(await turn(one, APPEND)).toMatchObject({ said: 'xxx 3\n', fresh: false, id: before.id })
    expect(double.claims()).toHaveLength(1)
  })

  it('belong to no worker, so that no janitor deletes them as a dead worker’s', async () => {
    newKey()
    const spec = specOf('x = 1')
    const sandbox = await one.backend.open(spec, AbortSignal.timeout(30_000))
    expect(await two.backend.owners()).toEqual([])
    expect(await two.backend.sweep(spec.owner)).toEqual({ destroyed: 0 })
    expect(double.claims()[0]?.labels).toMatchObject({ 'cofferdam.dev/session': sandbox.session?.id })
    await sandbox[Symbol.asyncDispose]()
  })

  it('serve two competing workers one after the other, in one pod', async () => {
    newKey()
    const turns = await Promise.all([one, two, one, two].map((by) => turn(by, APPEND)))
    expect(turns.map(({ said }) => said).toSorted()).toEqual(['x 1\n', 'xx 2\n', 'xxx 3\n', 'xxxx 4\n'])
    expect(new Set(turns.map(({ id }) => id)).size).toBe(1)
  })

  it('are ended by the reaper’s call once they are overdue', async () => {
    newKey()
    const spec = { ...specOf('x = 1'), session: { key, scope: 'files', idleMs: 1 } } as const
    const sandbox = await one.backend.open(spec, AbortSignal.timeout(30_000))
    expect(await two.registry.overdue('kubernetes', 10), 'while a turn is on').toEqual([])
    await sandbox[Symbol.asyncDispose]()
    await vi.waitFor(async () => expect(await two.registry.overdue('kubernetes', 10)).toEqual([name()]), SOON)
    await end()
    expect([double.claims(), await two.registry.find(name())]).toEqual([[], null])
    expect(double.running().filter(({ claim }) => claim !== null)).toEqual([])
  })

  it('are ended only by their own fleet, at the second look, if the registry has lost them', async () => {
    newKey()
    await turn(one, APPEND)
    const looker = (fleet: string): Backend =>
      createKubernetesBackend(
        { ...settings(), forgotten_after_ms: 0 },
        { sessions: two.registry, warm: warmSlots(newWorkerId(fleet)) },
      )
    await using ours = looker(FLEET)
    await using another = looker('0123456789ab')
    const leftAfter = async (looking: Backend): Promise<number> => {
      expect(await looking.owners()).toEqual([])
      return double.claims().length
    }
    expect([await leftAfter(ours), await leftAfter(ours)], 'while its entry stands').toEqual([1, 1])
    await redis.del(`cfd:{${TENANT}}:session:kubernetes:${key}`)
    expect([await leftAfter(another), await leftAfter(another)]).toEqual([1, 1])
    expect([await leftAfter(ours), await leftAfter(ours)]).toEqual([1, 0])
  })

  it('extend the claim’s shutdown time with each turn, and start again after it has passed', async () => {
    newKey()
    const { ref } = await turn(one, APPEND)
    await setShutdown(double, String(ref.handle['claim']), 45_000)
    expect(shutdownInMs()).toBeLessThan(46_000)
    await turn(two, APPEND)
    // The sum of the hard deadline, the default idle time of a session, and a margin.
    expect(shutdownInMs()).toBeGreaterThan(300_000)
    expect(shutdownInMs()).toBeLessThan(400_000)
    expect((await entry()).expiresAtMs).toBeLessThanOrEqual(Date.now() + shutdownInMs() + 1000)
    await setShutdown(double, String(ref.handle['claim']), -1000)
    await vi.waitFor(() => expect(double.claims()).toEqual([]), SOON)
    expect(await turn(one, APPEND)).toMatchObject({ said: 'x 1\n', fresh: true })
  })

  it('keep their idle time after a file request that names none', async () => {
    newKey()
    const spec = specOf('x = 1')
    const waits = { ...spec, session: { key, scope: 'interpreter', idleMs: 3_000_000 } } as const
    const look = { ...spec, program: { type: 'files', op: 'list' } } as const
    for (const asked of [waits, look])
      await (await one.backend.open(asked, AbortSignal.timeout(40_000)))[Symbol.asyncDispose]()
    const { idleAtMs, usedAtMs } = await entry()
    expect(idleAtMs - usedAtMs).toBe(3_000_000)
    expect(shutdownInMs()).toBeGreaterThan(3_000_000)
  })

  it('start again and leave no claim if their pod died between two turns', async () => {
    newKey()
    const { ref } = await turn(one, APPEND)
    await double.killPod(String(ref.handle['claim']))
    expect(await turn(two, APPEND)).toMatchObject({ said: 'x 1\n', fresh: true })
    expect(double.claims()).toHaveLength(1)
  })

  it('use an existing claim of their name if its create gets 409', async () => {
    newKey()
    const spec = specOf('print(6 * 7)')
    const claim = claimName(spec.sandboxId)
    await makeClaim(double, { name: claim })
    await using sandbox = await one.backend.open(spec, AbortSignal.timeout(40_000))
    expect(await printed(sandbox, spec.program)).toBe('42\n')
    expect(double.claims().map(({ name: found }) => found)).toEqual([claim])
  })

  describe('a worker that is killed', () => {
    const PHASES: [stopAt: string, what: string, goesOn: boolean, isRunning: boolean][] = [
      ['after 1', 'before it claims a pod', false, false],
      ['before 2', 'when all is clean, and before it says so', false, true],
      ['after 2', 'between two turns', true, true],
      ['after 3', 'before it connects', false, true],
      ['run 2', 'while its program runs', false, false],
    ]
    it.each(PHASES)('(%s) %s: the next worker goes on', async (stopAt, _what, goesOn, isRunning) => {
      newKey()
      const spec = specOf(APPEND)
      const given = JSON.stringify({
        settings: settings(),
        redisUrl: server.url,
        spec,
        turns: 2,
        stopAt,
      })
      const script = new URL('worker-that-dies.ts', import.meta.url)
      const child = fork(script, [given], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
      const exited = once(child, 'exit')
      await Promise.race([
        once(child, 'message'),
        exited.then(() => Promise.reject(new Error('it ended by itself'))),
      ])
      const [claim] = double.claims()
      child.kill('SIGKILL')
      await exited
      if (claim !== undefined && !isRunning)
        // No worker ends this pod. It ends by itself, because its program ends with the connection of the
        // killed worker.
        await vi.waitFor(() => expect(podOf(claim.name)).toBeUndefined(), SOON)
      await passLease()
      const before = goesOn ? await entry() : null
      const after = await turn(two, APPEND)
      expect(after).toMatchObject(
        goesOn ? { said: 'xx 2\n', fresh: false, id: before?.sessionId } : { said: 'x 1\n', fresh: true },
      )
      expect(double.claims().map(({ name: found }) => found)).toEqual([after.ref.handle['claim']])
    })
  })

  it('keeps a background process between two workers, and reads its output while none is attached', async () => {
    newKey()
    const marker = `background-${key}-${process.pid}`
    // More than a pipe holds, so somebody must read it.
    const job = `import os, time
while not os.path.exists("go"): time.sleep(0.01)
for number in range(100000, 140000): print(number)
print("last", flush=True)
open("said", "w").close()
time.sleep(600)`
    const start = `import subprocess, sys\nx = 1\nsubprocess.Popen([sys.executable, '-c', ${JSON.stringify(job)}, '${marker}'])`
    expect(await turn(one, start, 'processes')).toMatchObject({ said: '', fresh: true })
    const [pid] = await hostProcesses(marker)
    const work = join(`/proc/${pid}`, 'root', SURROUNDINGS.workFolder)
    writeFileSync(join(work, 'go'), '')
    await vi.waitFor(() => expect(existsSync(join(work, 'said'))).toBe(true), SOON)
    const later = await turn(two, 'print(x)', 'processes')
    expect(later.fresh).toBe(false)
    expect(later.said.endsWith('139999\nlast\n1\n')).toBe(true)
    await end()
    expect(await hostProcesses(marker)).toEqual([])
  })

  describe('a lease that was lost', () => {
    it('ends the former holder’s program at once, with its pod', async () => {
      newKey()
      const source = "import time; print('up', flush=True); time.sleep(600)"
      const lost = new AbortController()
      const stalled = worker((registry) => ({
        ...registry,
        claim: async (...asked) => Object.assign(await registry.claim(...asked), { signal: lost.signal }),
      }))
      const sandbox = await stalled.backend.open(specOf(source), AbortSignal.timeout(30_000))
      const up = Promise.withResolvers<undefined>()
      const running = sandbox.run(python(source), {
        onOutput: () => up.resolve(undefined),
        maxOutputBytes: { stdout: 100, stderr: 100 },
        signal: AbortSignal.timeout(40_000),
      })
      const ended = expect(running).rejects.toMatchObject({ code: 'fenced' })
      await up.promise
      lost.abort(new Error('lost'))
      await ended
      await vi.waitFor(() => expect(podOf(String(sandbox.ref.handle['claim']))).toBeUndefined(), SOON)
      await sandbox[Symbol.asyncDispose]()
      expect(double.claims()).toEqual([])
    })

    it('keeps a stalled worker from changing the next holder’s shutdown time', async () => {
      newKey()
      const spec = specOf(APPEND)
      const waits = { ...spec, session: { key, scope: 'interpreter', idleMs: 3_000_000 } } as const
      await (await one.backend.open(waits, AbortSignal.timeout(40_000)))[Symbol.asyncDispose]()
      const stalled = worker((registry) => ({
        ...registry,
        claim: async (...asked) =>
          Object.assign(await registry.claim(...asked), { signal: AbortSignal.abort(new Error('lost')) }),
      }))
      const brief = { ...spec, session: { key, scope: 'interpreter', idleMs: 1000 } } as const
      await expect(stalled.backend.open(brief, AbortSignal.timeout(40_000))).rejects.toThrow('lost')
      expect(shutdownInMs()).toBeGreaterThan(2_000_000)
    })

    it('keeps a stalled worker from connecting, and keeps the next worker’s changes', async () => {
      newKey()
      await turn(one, APPEND)
      let stalls = true
      const stalled = worker((registry) =>
        keptThrough(registry, async (write) => {
          if (stalls) {
            stalls = false
            await passLease()
            expect(await turn(two, APPEND)).toMatchObject({ said: 'xx 2\n' })
          }
          await write()
        }),
      )
      await expect(turn(stalled, APPEND)).rejects.toMatchObject({ code: 'fenced' })
      expect(await turn(one, APPEND)).toMatchObject({ said: 'xxx 3\n', fresh: false })
    })

    it('is refused by the pod too, if its holder connects with the right key', async () => {
      newKey()
      const { ref } = await turn(one, APPEND)
      const claim = String(ref.handle['claim'])
      const pod = { claim, name: podOf(claim) ?? '', ip: await addressOf(claim) }
      const right = await sessionKey(secretFile, NAMESPACE, claim)
      const signal = AbortSignal.timeout(20_000)
      const socket = await connected(pod.ip)
      await expect(greetAgain(socket, pod, { key: right, fence: 1 }, signal)).rejects.toThrow(/fenced/)
      socket.destroy()
      expect(await turn(two, APPEND)).toMatchObject({ said: 'xx 2\n', fresh: false })
    })
  })

  it('stay unchanged if an execution is cancelled while its worker attaches', async () => {
    newKey()
    await turn(one, APPEND)
    const stop = new AbortController()
    const cancelled = worker((registry) =>
      keptThrough(registry, async (write) => {
        await write()
        stop.abort(new Error('cancelled'))
      }),
    )
    await expect(cancelled.backend.open(specOf(APPEND), stop.signal)).rejects.toThrow('cancelled')
    expect(await turn(two, APPEND)).toMatchObject({ said: 'xx 2\n', fresh: false })
  })

  describe('the secret', () => {
    it('gives new keys when it is replaced, and sessions of the old secret start again', async () => {
      newKey()
      const { ref } = await turn(one, APPEND)
      writeFileSync(secretFile, 'another-secret-of-at-least-32-bytes-long')
      const after = await turn(two, APPEND)
      expect(after).toMatchObject({ said: 'x 1\n', fresh: true })
      expect(after.ref.handle['claim']).not.toBe(ref.handle['claim'])
      await end()
    })

    it('is reported as missing by the probe, not by a program', async () => {
      newKey()
      writeFileSync(secretFile, 'short')
      const signal = AbortSignal.timeout(10_000)
      const refusal = { ok: false, why: expect.stringContaining('less than 32 bytes') as string }
      expect(await one.backend.probe(signal)).toMatchObject(refusal)
      await expect(one.backend.open(specOf('1'), signal)).rejects.toMatchObject({
        code: 'backend_unavailable',
      })
    })

    it('appears with its keys in no ref, entry, claim or other object of the cluster', async () => {
      newKey()
      const { ref } = await turn(one, APPEND)
      const claim = String(ref.handle['claim'])
      const right = await sessionKey(secretFile, NAMESPACE, claim)
      const all = JSON.stringify([ref, await entry()]) + (await (await fetch(claimUrl(double, claim))).text())
      expect(all).toContain(claim)
      for (const secret of [SECRET, right.toString('hex'), right.toString('base64')])
        expect(all).not.toContain(secret)
    })
  })

  describe('a program of the session', () => {
    /** In the double the pod's port is this socket. In the image it is a port on loopback. */
    const KNOCK = `
import json, os, socket, glob
doors = []
def knock(*lines):
    door = socket.socket(socket.AF_UNIX); door.settimeout(0.3); door.connect('/run/jail/socket'); doors.append(door)
    for line in lines: door.sendall(json.dumps(line).encode() + b'\\n')
    return heard(door)
def heard(door):
    try: return door.recv(4096).decode()
    except OSError: return 'nothing'
me = socket.gethostname()
`
    it('reaches the port but receives nothing in its turn, and only a challenge after it', async () => {
      newKey()
      const first = await turn(
        one,
        `${KNOCK}
print([knock(), knock({'pod': me, 'options': []}), knock({'pod': me, 'fence': 2**52, 'nonce': 'n'}), knock({'pod': me, 'fence': 2**52, 'nonce': 'n'}, {'proof': '0' * 64})])`,
      )
      expect(first.said).toBe("['nothing', 'nothing', 'nothing', 'nothing']\n")
      // The kept interpreter still holds its connections, which it opened before the next worker connected.
      const second = await turn(
        two,
        "said = [heard(door) for door in doors]\nprint([word if word in ('', 'nothing') else sorted(json.loads(word)) for word in said], me in str(said))",
      )
      expect(second).toMatchObject({ fresh: false, id: first.id })
      expect(second.said).toBe("['', '', ['nonce', 'proof'], ''] False\n")
    })

    it('cannot read the first process or take its open files', async () => {
      newKey()
      const { said } = await turn(
        one,
        `${KNOCK}
def denied(path):
    try: open(path, 'rb').read(64)
    except OSError as error: return type(error).__name__
    return 'read'
print([denied('/proc/1/' + name) for name in ('environ', 'mem', 'maps', 'auxv')])
print({denied('/proc/1/fd/%d' % number) for number in range(64)} - {'FileNotFoundError'})
import ctypes
libc = ctypes.CDLL(None)
print([libc.ptrace(16, 1, 0, 0), libc.process_vm_readv(1, None, 0, None, 0, 0) <= 0, libc.syscall(438, libc.syscall(434, 1, 0), 3, 0)])
print(b'fence' in open('/proc/1/cmdline', 'rb').read())`,
      )
      expect(said).toBe(
        "['PermissionError', 'PermissionError', 'PermissionError', 'PermissionError']\n{'PermissionError'}\n[-1, True, -1]\nFalse\n",
      )
    })

    it('cannot attach with a forged proof', async () => {
      newKey()
      const { ref } = await turn(one, APPEND)
      const claim = String(ref.handle['claim'])
      const pod = { claim, name: podOf(claim) ?? '', ip: await addressOf(claim) }
      const socket = await connected(pod.ip)
      socket.write(`${JSON.stringify({ pod: pod.name, fence: 2 ** 52, nonce: 'n' })}\n`)
      let asked = ''
      while (!asked.endsWith('\n')) {
        await once(socket, 'readable')
        asked += String(socket.read() ?? '')
      }
      expect(Object.keys(JSON.parse(asked) as object)).toEqual(['nonce', 'proof'])
      socket.write(`${JSON.stringify({ proof: '0'.repeat(64) })}\n`)
      expect(await text(socket)).toContain('not a worker of this session')
      expect(await turn(two, APPEND)).toMatchObject({ said: 'xx 2\n', fresh: false })
    })
  })
})
