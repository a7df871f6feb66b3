/** Attacks from inside of a jail, and the ends of sandboxes whose worker died; seen from the host. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, readdirSync, writeFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type Backend,
  type Exit,
  type Program,
  type Sandbox,
  type SandboxSpec,
} from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createBackend } from '../src/process/index.ts'
import { processConfigSchema } from '../src/process/config.ts'
import { runtimeFolder } from './host-rungs.ts'

const signal = new AbortController().signal
const owner = newWorkerId('abcdefabcdef')
const python = (source: string): Program => ({ type: 'script', language: 'python', source })

function specOf(program: Program, limits: Partial<SandboxSpec['limits']> = {}): SandboxSpec {
  return {
    sandboxId: newSandboxId(),
    executionId: newExecutionId(),
    attempt: 1,
    tenantId: 'tenant',
    owner,
    program,
    limits: { ...DEFAULT_LIMITS, ...limits },
    network: 'none',
    env: {},
    preload: null,
    reuse: 'job',
    session: null,
  }
}

async function run(
  sandbox: Sandbox,
  program: Program,
): Promise<{ exit: Exit; stdout: string; stderr: string }> {
  const seen = { stdout: '', stderr: '' }
  const exit = await sandbox.run(program, {
    onOutput: (stream, chunk) => void (seen[stream] += Buffer.from(chunk).toString('latin1')),
    maxOutputBytes: { stdout: 1 << 20, stderr: 1 << 20 },
    signal,
  })
  return { exit, ...seen }
}

/** Each line: what was tried, and the errno name, `killed`, or what came back. */
const ATTACKS = `
import ctypes, errno, os, platform, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
agent = os.getppid()
arm = platform.machine() == 'aarch64'
def attempt(name, act):
    try:
        got = act()
    except OSError as e:
        got = errno.errorcode.get(e.errno, e.errno)
    except ValueError as e:
        got = 'EPERM' if 'not allowed' in str(e) else repr(e)
    print(name, str(got).split('\\n')[0])
def call(x64, a64, *args):
    number = a64 if arm else x64
    result = libc.syscall(number, *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), '')
    return result
attempt('ptrace', lambda: call(101, 117, 16, agent, 0, 0))
attempt('process_vm_readv', lambda: call(310, 270, agent, 0, 0, 0, 0, 0))
attempt('prlimit', lambda: resource.prlimit(agent, resource.RLIMIT_NOFILE, (0, 0)))
attempt('pidfd_getfd', lambda: call(438, 438, os.pidfd_open(agent), 0, 0))
attempt('agent_mem', lambda: open('/proc/%d/mem' % agent, 'rb').read(1))
attempt('agent_environ', lambda: open('/proc/%d/environ' % agent, 'rb').read(1))
attempt('agent_fd', lambda: os.listdir('/proc/%d/fd' % agent))
attempt('unshare', lambda: call(272, 97, 0x10000000))
attempt('setns', lambda: call(308, 268, 0, 0))
attempt('mount', lambda: call(165, 40, b'none', b'/tmp', b'tmpfs', 0, 0))
attempt('chroot', lambda: os.chroot('/tmp'))
attempt('io_uring', lambda: call(425, 425, 4, ctypes.create_string_buffer(120)))
attempt('bpf', lambda: call(321, 280, 0, 0, 0))
attempt('keyctl', lambda: call(250, 219, 0, -3, 1))
attempt('userfaultfd', lambda: call(323, 282, 1))
attempt('perf', lambda: call(298, 241, 0, 0, 0, 0, 0))
attempt('setuid', lambda: os.setuid(0))
attempt('mknod', lambda: os.mknod('dev', 0o60666, os.makedev(254, 0)))
attempt('shadow', lambda: open('/etc/shadow').read())
attempt('core_pattern', lambda: open('/proc/sys/kernel/core_pattern', 'w'))
attempt('usr', lambda: open('/usr/x', 'w'))
attempt('root', lambda: open('/x', 'w'))
attempt('dev', lambda: open('/dev/x', 'w'))
attempt('home', lambda: os.listdir('/root'))
attempt('docker', lambda: socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock'))
attempt('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt('inet', lambda: socket.create_connection(('1.1.1.1', 53), 1))
attempt('processes', lambda: sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))
`

const CLOSED = ['EPERM', 'EACCES', 'ENOENT', 'EROFS', 'ENOSYS', 'EINVAL', 'ENETUNREACH', 'EAFNOSUPPORT']

describe.each([
  ['bwrap', { jail: 'bwrap' }],
  ['self-jail', { jail: 'self' }],
  ['self-jail without namespaces', { jail: 'self', namespaces: false }],
] as const)('%s', (name, settings) => {
  const runtimeDir = runtimeFolder()
  let backend: Backend
  let isHere = false
  /** Names this host in records; a real sandbox says which. */
  let place = ''
  beforeAll(async () => {
    backend = await createBackend(processConfigSchema.parse({ ...settings, runtime_dir: runtimeDir }), {})
    const probe = await backend.probe(signal)
    isHere = probe.ok
    if (probe.ok) {
      await using sandbox = await backend.open(specOf(python('')), signal)
      place = String(sandbox.ref.handle['place'])
    }
    if (!probe.ok && process.env['COFFERDAM_REQUIRE'] === 'all') throw new Error(`${probe.why} ${probe.fix}`)
  })
  afterAll(() => backend[Symbol.asyncDispose]())

  async function once(program: Program, limits?: Partial<SandboxSpec['limits']>): ReturnType<typeof run> {
    await using sandbox = await backend.open(specOf(program, limits), signal)
    return await run(sandbox, program)
  }

  test('refuses what a jailed program must not do', async ({ skip }) => {
    skip(!isHere, `${name} cannot run here`)
    const { stdout, exit } = await once(python(ATTACKS))
    expect(exit.exitCode).toBe(0)
    const lines = stdout
      .trim()
      .split('\n')
      .map((line): [string, string] => {
        const [what = '', ...got] = line.split(' ')
        return [what, got.join(' ')]
      })
    expect(lines.length).toBe(29)
    for (const [what, got] of lines) {
      if (what === 'processes') expect(['[1, 2]', 'EACCES']).toContain(got)
      else expect(CLOSED, `${what}: ${got}`).toContain(got)
    }
  })

  test('cannot end, stop or confuse its agent', async ({ skip }) => {
    skip(!isHere, `${name} cannot run here`)
    const { exit, stdout } = await once(
      python(`
import os, signal
for number in range(1, 65):
    try: os.kill(os.getppid(), number)
    except (OSError, ValueError): pass
try: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)
except OSError: pass
print('alive', flush=True)
os._exit(7)
`),
    )
    expect({ stdout, exitCode: exit.exitCode }).toEqual({ stdout: 'alive\n', exitCode: 7 })
  })

  test('a fork bomb ends with its sandbox', async ({ skip }) => {
    skip(!isHere, `${name} cannot run here`)
    const marker = `bomb${newSandboxId()}`
    const program: Program = { type: 'command', shell: `f() { f | f & }; f; exec -a ${marker} sleep 60` }
    const sandbox = await backend.open(specOf(program, { pids: 32 }), signal)
    const running = run(sandbox, program)
    running.catch(() => {})
    await vi.waitFor(() => expect(commandLines(marker)).not.toEqual([]), { timeout: 20_000, interval: 20 })
    await sandbox[Symbol.asyncDispose]()
    expect(commandLines(marker)).toEqual([])
    await expect(running).rejects.toMatchObject({ code: 'sandbox_lost' })
  })

  test('hands no descriptor of the worker on', async ({ skip }) => {
    skip(!isHere, `${name} cannot run here`)
    const program: Program = { type: 'command', shell: 'echo /proc/self/fd/* /dev/fd/*' }
    const worker = spawn(
      process.execPath,
      [
        fileURLToPath(new URL('./worker-that-dies.ts', import.meta.url)),
        JSON.stringify({ ...settings, runtime_dir: runtimeDir }),
        newWorkerId('abcdefabcdef'),
        JSON.stringify(program),
      ],
      // fd 9 is what a worker inherits itself: Node does not close it for its children.
      { stdio: ['ignore', 'pipe', 'inherit', ...Array<'ignore'>(6).fill('ignore'), 'ignore'] },
    )
    let said = ''
    worker.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString('latin1')))
    await new Promise((resolve) => worker.once('close', resolve))
    expect(said).toContain('/fd/')
    expect(said).not.toMatch(/fd\/(?:[4-9]|\d\d+)\b/)
  })

  test('writes no more than its disk, and the host gets it back', async ({ skip }) => {
    skip(!isHere, `${name} cannot run here`)
    if (!backend.capabilities.enforces.includes('disk')) {
      // Without a mount of its own a work directory has no size; every other rung has one.
      expect(name).toBe('self-jail without namespaces')
      return
    }
    const { stdout, exit } = await once(
      python(`
import os
total = 0
try:
    with open('big', 'wb', buffering=0) as f:
        for _ in range(64): total += f.write(b'x' * 1048576)
except OSError as e: print(e.errno, flush=True)
os._exit(0)`),
      { disk_mib: 4 },
    )
    expect(stdout).toMatch(/^(28|27)\n$/)
    expect(exit.diskLimitHit || stdout === '27\n').toBe(true)
  })

  test('kills for memory without a cgroup too, and says so', async ({ skip }) => {
    skip(!isHere, `${name} cannot run here`)
    await using weak = await createBackend(
      processConfigSchema.parse({ ...settings, cgroups: false, runtime_dir: runtimeDir }),
      {},
    )
    const program = python(`
import time
held = []
while True:
    held.append(bytearray(b'x') * (8 << 20))
    time.sleep(0.01)`)
    await using sandbox = await weak.open(specOf(program, { memory_mib: 96 }), signal)
    const { exit } = await run(sandbox, program)
    expect(exit.signal).toBe('SIGKILL')
    expect(exit.oomKills).toBeGreaterThan(0)
    expect(weak.capabilities.enforces).not.toContain('memory')
  })

  test('a worker that is killed takes its sandboxes along, and another sweeps the record', async ({
    skip,
  }) => {
    skip(!isHere, `${name} cannot run here`)
    const marker = `left${newSandboxId()}`
    const dead = newWorkerId('abcdefabcdef')
    const worker = spawn(
      process.execPath,
      [
        fileURLToPath(new URL('./worker-that-dies.ts', import.meta.url)),
        JSON.stringify({ ...settings, runtime_dir: runtimeDir }),
        dead,
        marker,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    await new Promise((resolve) => worker.stdout.once('data', resolve))
    await vi.waitFor(() => expect(commandLines(marker).length).toBeGreaterThanOrEqual(2), {
      timeout: 20_000,
      interval: 20,
    })
    const exited = new Promise((resolve) => worker.once('exit', resolve))
    worker.kill('SIGKILL')
    await exited
    await vi.waitFor(() => expect(commandLines(marker)).toEqual([]), { timeout: 10_000, interval: 20 })
    expect(await backend.owners()).toContain(dead)
    expect(await backend.sweep(dead)).toEqual({ destroyed: 1 })
    expect(await backend.owners()).not.toContain(dead)
  })

  test('sweeps without killing a process that only has the pid of a dead sandbox', async ({ skip }) => {
    skip(!isHere, `${name} cannot run here`)
    const innocent = spawn('sleep', ['60'])
    try {
      const victim = newWorkerId('abcdefabcdef')
      const folder = join(runtimeDir, 'sandboxes', 'process', victim, newSandboxId())
      mkdirSync(folder, { recursive: true })
      const record = { pid: innocent.pid, start: 1, place, ownsPids: true }
      writeFileSync(join(folder, 'record.json'), JSON.stringify(record))
      expect(await backend.sweep(victim)).toEqual({ destroyed: 1 })
      expect(existsSync(folder)).toBe(false)
      expect(innocent.exitCode).toBeNull()
      expect(existsSync(`/proc/${innocent.pid}`)).toBe(true)
    } finally {
      innocent.kill('SIGKILL')
    }
  })
})

/** Command lines of living host processes that contain the text. */
function commandLines(text: string): string[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return []
    try {
      const line = readFileSync(`/proc/${name}/cmdline`, 'utf8')
      return line.includes(text) && !line.includes('worker-that-dies') ? [line] : []
    } catch {
      return []
    }
  })
}
