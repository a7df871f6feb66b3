/**
 * The Firecracker engine against the double (infra/doubles/firecracker), which is started in the place of the
 * jailer and the binary: the whole life of a machine, and every step that can fail.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { agentOptions, createGuestSession, installGuest } from '@cofferdam/sandbox/guest'
import { isLongTier, needs } from '@cofferdam/embedded/needs'
import { expect, onTestFinished } from 'vitest'
import { AGENT_PORT, CONTROL_PORT, type MachineTemplate } from '../src/engine.ts'
import { firecrackerHost, hello, thaw, type FirecrackerHost } from './firecracker-host.ts'

const LONG = 180_000
const never = new AbortController().signal
const root = needs('root', 'mounts', 'setpriv', 'cgroups')
const FAILED = { code: 'sandbox_open_failed' }

const templateOf = (host: FirecrackerHost): Promise<MachineTemplate> =>
  host.engine.createTemplate(host.spec, host.templateFolder(), hello, never)

root.it(
  'boots, saves, restores, runs a program by the agent, and leaves nothing',
  async () => {
    // A copy of the agent, because other users may not be able to enter the folder of the git clone.
    const guest = mkdtempSync(join(tmpdir(), 'cofferdam-guest-'))
    onTestFinished(() => rmSync(guest, { recursive: true }))
    await installGuest(guest)
    const agent = ['/usr/bin/python3', '-I', '-S', join(guest, 'agent.py')]
    await using host = await firecrackerHost({ agent })
    const { engine } = host
    expect(await engine.probe()).toMatchObject({ ok: true })
    const template = await templateOf(host)
    expect(host.left()).toEqual([])
    const before = readFileSync(template.state, 'utf8')

    const work = join(host.folder, 'work')
    mkdirSync(work)
    chmodSync(work, 0o777)
    const pids: number[] = []
    const started = async (pid: number): Promise<void> => void pids.push(pid)
    const machine = await engine.restore(template, { ...host.lease(), started }, never)
    await thaw(machine.connect, agentOptions({ language: 'python', work }))
    const stream = await machine.connect(AGENT_PORT)
    const session = createGuestSession({ readable: stream, writable: stream })
    await session.ready(AbortSignal.timeout(60_000))
    let said = ''
    const exit = await session.run(
      { type: 'script', language: 'python', source: 'print(6 * 7)' },
      {
        signal: never,
        maxOutputBytes: { stdout: 1000, stderr: 1000 },
        onOutput: (_name, chunk) => void (said += Buffer.from(chunk).toString()),
      },
      {},
    )
    expect([exit.exitCode, said]).toEqual([0, '42\n'])
    expect(pids).toHaveLength(1)
    const status = readFileSync(`/proc/${pids[0]}/status`, 'latin1')
    // The process has a user of the configured range, is the first one in its pid namespace, and has its own
    // cgroup.
    expect(status).toMatch(host.double.dropsUser ? /^Uid:\t19020000\d\d\t/m : /^Uid:\t0\t/m)
    expect(status).toMatch(/^NSpid:\t\d+\t1$/m)
    expect(readFileSync(`/proc/${pids[0]}/cgroup`, 'latin1')).toContain(`/${machine.ref}\n`)
    await machine.kill()
    await machine.kill()
    expect(await machine.exited).toMatchObject({ oom: false })
    session.close()
    expect(host.left()).toEqual([])
    expect(readFileSync(template.state, 'utf8')).toBe(before)
    expect(await engine.killLeft({ id: 'sbx_none', process: null })).toBe(false)
  },
  LONG,
)

root.it(
  'says what the published order asks for, and closes the API of a clone',
  async () => {
    await using host = await firecrackerHost()
    const template = await templateOf(host)
    const boot = host.calls()
    expect(boot.map(({ call }) => call)).toEqual([
      'GET /version',
      'PUT /logger',
      'PUT /machine-config',
      'PUT /boot-source',
      'PUT /drives/rootfs',
      'PUT /vsock',
      'PUT /entropy',
      'PUT /actions',
      'PATCH /vm',
      'PUT /snapshot/create',
    ])
    const lease = host.lease()
    await using machine = await host.engine.restore(template, lease, never)
    const load = host.calls().slice(boot.length)
    expect(load.map(({ call }) => call)).toEqual(['GET /version', 'PUT /logger', 'PUT /snapshot/load'])
    expect(JSON.parse(load[2]?.text ?? '')).toEqual({
      snapshot_path: '/state',
      mem_backend: { backend_type: 'File', backend_path: '/memory' },
      resume_vm: true,
      clock_realtime: true,
      vsock_override: { uds_path: 'v.sock' },
    })
    const jail = join(host.folder, 'firecracker', machine.ref, 'root')
    expect(() => readFileSync(join(jail, 'run/fc.sock'))).toThrow(/ENOENT/)
    // A second machine of the same name does not end the first one.
    const again = { ...host.lease(), id: lease.id }
    await expect(host.engine.restore(template, again, never)).rejects.toThrow(/in use by another machine/)
    // Two clones at once, each with its own jail and user.
    await using other = await host.engine.restore(template, host.lease(), never)
    expect(other.ref).not.toBe(machine.ref)
    await Promise.all([thaw(machine.connect), thaw(other.connect)])
  },
  LONG,
)

root.inLongTier(
  'fails a restore whose load is refused, and one whose VMM dies, and leaves nothing',
  async () => {
    await using host = await firecrackerHost()
    const template = await templateOf(host)
    for (const fault of ['400', 'die'] as const) {
      host.double.setFaults({ api: { 'PUT /snapshot/load': fault } })
      const restoring = host.engine.restore(template, host.lease(), never)
      await expect(restoring, fault).rejects.toMatchObject(FAILED)
      expect(host.left(), fault).toEqual([])
    }
    host.double.setFaults({})
    const elsewhere = { ...template, memory: '/proc/self/status' }
    await expect(host.engine.restore(elsewhere, host.lease(), never)).rejects.toThrow(/another file system/)
    expect(host.left()).toEqual([])
  },
  LONG,
)

root.it(
  'fails when the jailer does, or its pid is not to be believed',
  async () => {
    await using patient = await firecrackerHost()
    await using impatient = await firecrackerHost({}, { jailerMs: 3000, apiMs: 60_000 })
    for (const [host, jailer, words] of [
      [patient, 'fail', 'asked for by the test'],
      [impatient, 'hang', 'did not end within 3000 ms'],
      [patient, 'no-pid', 'ENOENT'],
      [patient, 'wrong-pid', 'is not in its group'],
    ] as const) {
      host.double.setFaults({ jailer })
      await expect(templateOf(host), jailer).rejects.toMatchObject({
        ...FAILED,
        message: expect.stringContaining(words),
      })
      expect(host.left(), jailer).toEqual([])
    }
  },
  LONG,
)

root.inLongTier(
  'fails a connection whose handshake is half, junk, too long, silent or refused',
  async () => {
    await using host = await firecrackerHost(
      {},
      {
        jailerMs: 60_000,
        apiMs: 60_000,
        connectMs: 400,
        handshakeMs: 100,
      },
    )
    const template = await templateOf(host)
    for (const vsock of ['half', 'junk', 'long', 'silent', 'close'] as const) {
      host.double.setFaults({ vsock })
      await using machine = await host.engine.restore(template, host.lease(), never)
      await expect(machine.connect(CONTROL_PORT), vsock).rejects.toMatchObject(FAILED)
      await machine.kill()
      expect(host.left(), vsock).toEqual([])
    }
    host.double.setFaults({})
    await using machine = await host.engine.restore(template, host.lease(), never)
    await expect(machine.connect(6000)).rejects.toThrow(/nobody listens there/)
  },
  LONG,
)

root.inLongTier(
  'gives up on a guest that never listens, and on a caller that stops',
  async () => {
    await using host = await firecrackerHost({}, { jailerMs: 60_000, apiMs: 60_000, bootMs: 2000 })
    host.double.setFaults({ mute: true })
    await expect(templateOf(host)).rejects.toMatchObject(FAILED)
    expect(host.left()).toEqual([])
    const stop = new AbortController()
    const reason = new Error('enough')
    const making = host.engine.createTemplate(
      host.spec,
      host.templateFolder(),
      async () => {
        stop.abort(reason)
        await new Promise(() => {})
      },
      stop.signal,
    )
    await expect(making).rejects.toBe(reason)
    expect(host.left()).toEqual([])
  },
  LONG,
)

root.it(
  'notices the end of a VMM, and of one of an old version',
  async () => {
    await using host = await firecrackerHost()
    const template = await templateOf(host)
    let pid = 0
    const started = async (vmm: number): Promise<void> => void (pid = vmm)
    await using machine = await host.engine.restore(template, { ...host.lease(), started }, never)
    process.kill(pid, 'SIGKILL')
    expect(await machine.exited).toMatchObject({ code: null, oom: false })
    await expect(machine.connect(CONTROL_PORT)).rejects.toMatchObject(FAILED)
    await machine.kill()
    expect(host.left()).toEqual([])

    for (const version of ['1.15.1', '1.16.0', '2.0.0']) {
      await using old = await firecrackerHost({ version })
      expect(await old.engine.probe()).toMatchObject({ ok: false, why: expect.stringContaining(version) })
      await expect(templateOf(old)).rejects.toMatchObject(FAILED)
      expect(old.calls().map(({ call }) => call)).toEqual(['GET /version'])
      expect(old.left()).toEqual([])
    }
  },
  LONG,
)

root.it.each(isLongTier() ? ['template', 'started', 'restored'] : ['restored'])(
  'ends what a worker left that was killed at the phase %s',
  async (phase) => {
    await using host = await firecrackerHost()
    const template = phase === 'template' ? null : await templateOf(host)
    const folder = template === null ? host.templateFolder() : join(template.state, '..')
    const { id } = host.lease()
    const script = fileURLToPath(new URL('./firecracker-worker-that-dies.ts', import.meta.url))
    const words = [JSON.stringify(host.settings), JSON.stringify(host.spec), phase, folder, id]
    const worker = spawn(process.execPath, [script, ...words], { stdio: ['ignore', 'pipe', 'inherit'] })
    const [line] = (await once(worker.stdout, 'data')) as [Buffer]
    expect(line.toString()).toBe(`${phase}\n`)
    worker.kill('SIGKILL')
    await once(worker, 'exit')
    expect(host.left()).not.toEqual([])
    // Another worker ends a machine by its lease's ID, and a template's leftovers when it makes a template
    // itself.
    if (phase === 'template') await templateOf(host)
    else expect(await host.engine.killLeft({ id, process: null })).toBe(true)
    expect(host.left()).toEqual([])
  },
  LONG,
)

root.it(
  'follows no link of a jail when two workers remove it at once',
  async () => {
    await using host = await firecrackerHost()
    const template = await templateOf(host)
    const outside = join(host.folder, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'kept'), 'kept')
    const lease = host.lease()
    await using machine = await host.engine.restore(template, lease, never)
    const jail = join(host.folder, 'firecracker', machine.ref, 'root')
    symlinkSync(outside, join(jail, 'link'))
    symlinkSync(join(outside, 'kept'), join(jail, 'other'))
    for (let n = 0; n < 200; n++) writeFileSync(join(jail, `file-${n}`), '')
    // The machine’s own worker and a sweeping worker end it at the same time.
    await Promise.all([machine.kill(), host.engine.killLeft({ id: lease.id, process: null })])
    expect(host.left()).toEqual([])
    expect(readFileSync(join(outside, 'kept'), 'utf8')).toBe('kept')
    expect(readFileSync(template.memory).length).toBe(128 * 1_048_576)
  },
  LONG,
)
