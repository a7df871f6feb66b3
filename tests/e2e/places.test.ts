/** Sessions, tenant cells, warm slots and preload sets as a client sees them, through queue and worker. */
import { mkdtemp, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { ExecutionRequestInput, ExecutionResult, SessionScope } from '@cofferdam/contract'
import { isLongTier, needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'

let fleet: Fleet
let worker: FleetWorker

const startWorker = async (): Promise<FleetWorker> => {
  const folder = await mkdtemp(path.join(fleet.dataDir, 'config-'))
  const file = path.join(folder, 'cofferdam.config.yaml')
  // Modules of the standard library, so that the set exists on every Python.
  await writeFile(
    file,
    JSON.stringify({ warm: { preload: { plain: ['decimal', 'sqlite3'], gone: ['no_such_module'] } } }),
  )
  return await fleet.startWorker({
    COFFERDAM_CONFIG: file,
    COFFERDAM_BACKENDS: 'docker,process',
    COFFERDAM_SLOTS: '4',
  })
}

beforeAll(async () => {
  fleet = await startFleet()
  for (const tenant of ['acme', 'globex'])
    await fleet.createTenant(tenant, { caps: { tenant_daily: 10_000, agent_hourly: 10_000 } })
  worker = await startWorker()
})
afterAll(() => fleet?.[Symbol.asyncDispose]())

type Language = 'python' | 'javascript' | 'typescript' | 'bash'

const run = (
  backend: string,
  language: Language,
  source: string,
  more: Partial<ExecutionRequestInput> = {},
): Promise<ExecutionResult> =>
  fleet.client.run(
    { tenant_id: 'acme', agent_id: 'a', backend, program: { type: 'script', language, source }, ...more },
    { timeoutMs: 90_000 },
  )

for (const backend of isLongTier() ? (['docker', 'process'] as const) : (['docker'] as const))
  needs(backend === 'process' ? 'process-namespaces' : backend).describe(`on ${backend}`, () => {
    // On the backend `process`, sessions of scope `processes` need a cgroup.
    const keepsProcesses = needs(backend === 'process' ? 'cgroups' : backend)
    const session = (name: string, scope: SessionScope) => ({
      session: { key: `${backend}-${name}`, scope },
    })

    it('keeps the files of a session for every language, and nothing else', async () => {
      const files = session('files', 'files')
      const first = await run(
        backend,
        'python',
        'open("note.txt", "w").write("kept"); open("/tmp/aside", "w"); x = 1',
        files,
      )
      const id = expect.stringMatching(/^ses_[0-9a-f]{32}$/)
      expect(first).toMatchObject({ ok: true, session: { id, fresh: true, interpreter: 'none' } })
      const next = { id: first.session?.id, fresh: false, interpreter: 'none' }
      const second = await run(
        backend,
        'bash',
        'cat note.txt; ls /tmp/aside 2>/dev/null || echo; id -u',
        files,
      )
      expect(second).toMatchObject({ ok: true, session: next })
      expect(second.stdout).toMatch(/^kept\n\d+\n$/)
      const third = await run(
        backend,
        'javascript',
        'console.log(require("fs").readFileSync("note.txt", "utf8"))',
        files,
      )
      expect(third).toMatchObject({ ok: true, stdout: 'kept\n', session: next })
      expect(await run(backend, 'python', 'x', files)).toMatchObject({ ok: false, ending: 'error' })
    })

    it('keeps the interpreter of a session with names and modules, also after an error', async () => {
      const repl = session('repl', 'interpreter')
      expect(await run(backend, 'python', 'import math\nx = 40', repl)).toMatchObject({ ok: true })
      expect(await run(backend, 'python', 'x += 2\n1/0', repl)).toMatchObject({
        ok: false,
        ending: 'error',
        exit_code: 1,
      })
      expect(await run(backend, 'python', 'print(math.floor(2.5)); x', repl)).toMatchObject({
        stdout: '2\n',
        value: 42,
      })
      expect(await run(backend, 'python', 'raise SystemExit(7)', repl)).toMatchObject({ exit_code: 7 })
      expect(await run(backend, 'python', 'x', repl)).toMatchObject({
        ok: true,
        value: 42,
        session: { fresh: false, interpreter: 'kept' },
      })
      await run(backend, 'python', 'import os; os._exit(0)', repl)
      expect(await run(backend, 'python', '"x" in globals()', repl)).toMatchObject({
        value: false,
        session: { fresh: false, interpreter: 'restarted' },
      })
    })

    keepsProcesses.it('keeps a server running for later executions, also after one that hung', async () => {
      const terminal = session('terminal', 'processes')
      const server = `python3 -m http.server 3000 --bind 127.0.0.1 >/dev/null 2>&1 &
until (: >/dev/tcp/127.0.0.1/3000) 2>/dev/null; do sleep 0.1; done; echo up`
      const call = `exec 3<>/dev/tcp/127.0.0.1/3000; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; head -1 <&3`
      expect(await run(backend, 'bash', server, terminal)).toMatchObject({ ok: true, stdout: 'up\n' })
      expect(await run(backend, 'bash', call, terminal)).toMatchObject({
        stdout: 'HTTP/1.0 200 OK\r\n',
        session: { fresh: false, interpreter: 'kept' },
      })
      const limits = { soft_timeout_ms: 1000, hard_timeout_ms: 31_000 }
      expect(await run(backend, 'bash', 'sleep 600', { ...terminal, limits })).toMatchObject({
        ending: 'soft_timeout',
      })
      expect(await run(backend, 'bash', call, terminal)).toMatchObject({
        stdout: 'HTTP/1.0 200 OK\r\n',
        session: { fresh: false, interpreter: 'restarted' },
      })
    })

    it('starts a session fresh after a run was killed, with another session ID', async () => {
      const files = session('killed', 'files')
      const first = await run(backend, 'python', 'open("note.txt", "w").write("kept")', files)
      const hung = await run(
        backend,
        'python',
        'import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()',
        { ...files, limits: { soft_timeout_ms: 2000, hard_timeout_ms: 3000 } },
      )
      expect(hung).toMatchObject({ ending: 'hard_timeout', session: { id: first.session?.id } })
      const next = await run(backend, 'python', 'import os; print(os.path.exists("note.txt"))', files)
      expect(next).toMatchObject({ ok: true, stdout: 'False\n' })
      expect([next.session?.fresh, next.session?.id === first.session?.id]).toEqual([true, false])
    })

    it('never shares a session key between tenants', async () => {
      const files = session('same-key', 'files')
      await run(backend, 'python', 'open("note.txt", "w").write("acme")', files)
      const other = await run(backend, 'python', 'import os; print(os.listdir("."))', {
        ...files,
        tenant_id: 'globex',
      })
      expect(other.stdout).toBe("['main.py']\n")
    })

    it('refuses other limits for an existing session', async () => {
      const files = session('limits', 'files')
      await run(backend, 'python', 'pass', files)
      expect(await run(backend, 'python', 'pass', { ...files, limits: { memory_mib: 300 } })).toMatchObject({
        ending: 'provisioning',
        error_message: expect.stringContaining('memory_mib 256'),
      })
      expect(await run(backend, 'python', 'print(1)', files)).toMatchObject({ stdout: '1\n' })
    })

    it('gives executions of a tenant a warm sandbox that keeps nothing', async () => {
      const reuse = { reuse: 'tenant' } as const
      await run(
        backend,
        'python',
        'open("note.txt", "w").write("x"); open("/tmp/aside", "w").write("y")',
        reuse,
      )
      const source =
        'import os, random; print(sorted(os.listdir("."))); print(os.path.exists("/tmp/aside")); print(random.random())'
      const [one, two] = [
        await run(backend, 'python', source, reuse),
        await run(backend, 'python', source, reuse),
      ]
      for (const result of [one, two]) expect(result.stdout).toMatch(/^\['main\.py'\]\nFalse\n0\.\d+\n$/)
      expect(one.stdout).not.toBe(two.stdout)
      expect(one).not.toHaveProperty('session')
    })

    it('imports a preload set before the program, and refuses an unknown set', async () => {
      const source = 'import sys; print("sqlite3" in sys.modules and "decimal" in sys.modules)'
      expect(await run(backend, 'python', source, { preload: 'plain' })).toMatchObject({
        ok: true,
        stdout: 'True\n',
      })
      expect(await run(backend, 'python', source)).toMatchObject({ ok: true, stdout: 'False\n' })
      for (const preload of ['unheard', 'gone'])
        expect(await run(backend, 'python', source, { preload })).toMatchObject({
          ok: false,
          ending: 'provisioning',
        })
    })

    it('stops a program at its CPU time limit, not at that much wall-clock time', async () => {
      const result = await run(backend, 'python', 'while True: pass', { limits: { cpu_time_ms: 300 } })
      expect(result).toMatchObject({
        ending: 'hard_timeout',
        exit_status: 'timeout',
        reason: 'cpu_time_limit',
      })
      expect(result.duration_ms).toBeLessThan(20_000)
      // An interpreter needs 30 ms of CPU time to start, sometimes ten times as much. That is still far below
      // the limit of 2 s.
      const sleeper = 'import time; time.sleep(2.2); print("rested")'
      expect(await run(backend, 'python', sleeper, { limits: { cpu_time_ms: 2000 } })).toMatchObject({
        stdout: 'rested\n',
      })
    })

    it('shows the second of two equal executions nothing of the first one', async () => {
      for (let i = 0; i < 6; i++) {
        const source =
          'import os; print(os.listdir("."), os.listdir("/tmp")); open("left", "w"); open("/tmp/left", "w")'
        expect((await run(backend, 'python', source)).stdout).toBe("['main.py'] ['work']\n")
      }
    })
  })

needs('process-namespaces').it(
  'continues a session fresh on another worker if its worker was killed',
  async () => {
    const files = { session: { key: 'orphan', scope: 'files' } } as const
    const first = await run('process', 'python', 'open("note.txt", "w").write("kept")', files)
    await worker.kill()
    worker = await startWorker()
    const next = await run('process', 'python', 'import os; print(os.path.exists("note.txt"))', files)
    expect(next).toMatchObject({ ok: true, stdout: 'False\n' })
    expect([next.session?.fresh, next.session?.id === first.session?.id]).toEqual([true, false])
  },
)
