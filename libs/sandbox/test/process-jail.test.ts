/** Attacks from inside a jail, and the end of sandboxes whose worker died, seen from the host. */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  DEFAULT_LIMITS,
  isAtLeast,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type Backend,
  type Exit,
  type Program,
  type Sandbox,
  type SandboxSpec,
} from '@cofferdam/contract'
import { isLongTier, needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { createBackend } from '../src/process/index.ts'
import { processConfigSchema } from '../src/process/config.ts'
import { holdersOfUids, runtimeFolder, uidsInUse } from './host-rungs.ts'

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

/** Prints one line for each attempt: its name, and then the name of an errno, `killed`, or the result. */
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
for name, x64, a64 in (('io_uring_enter', 426, 426), ('add_key', 248, 217), ('request_key', 249, 218), ('process_vm_writev', 311, 271),
        ('kcmp', 312, 272), ('umount2', 166, 39), ('pivot_root', 155, 41), ('move_mount', 429, 429), ('fsopen', 430, 430),
        ('open_tree', 428, 428), ('mount_setattr', 442, 442), ('kexec_load', 246, 104), ('init_module', 175, 105),
        ('swapon', 167, 224), ('reboot', 169, 142), ('syslog', 103, 116), ('acct', 163, 89), ('settimeofday', 164, 170),
        ('open_by_handle_at', 304, 265), ('fanotify_init', 300, 262), ('memfd_secret', 447, 447), ('io_setup', 206, 0),
        ('vmsplice', 278, 75), ('quotactl', 179, 60), ('statmount', 457, 457), ('clone3', 435, 435), ('unknown', 600, 600)):
    attempt(name, lambda: call(x64, a64, 0, 0, 0, 0, 0))
attempt('personality', lambda: call(135, 92, 0x0400000))
for flag in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    if flag != 0x80: attempt('clone_%x' % flag, lambda: call(56, 220, flag | 17, 0, 0, 0, 0))
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

function attacks(name: string, settings: { jail: 'bwrap' | 'self'; namespaces?: boolean }): void {
  const runtimeDir = runtimeFolder()
  let backend: Backend
  /** How records name this boot of this host and our pid namespace. Taken from a real sandbox. */
  let place = ''
  beforeAll(async () => {
    backend = await createBackend(processConfigSchema.parse({ ...settings, runtime_dir: runtimeDir }), {})
    expect(await backend.probe(signal)).toMatchObject({ ok: true })
    await using sandbox = await backend.open(specOf(python('')), signal)
    place = String(sandbox.ref.handle['place'])
  })
  afterAll(() => backend[Symbol.asyncDispose]())

  async function once(program: Program, limits?: Partial<SandboxSpec['limits']>): ReturnType<typeof run> {
    await using sandbox = await backend.open(specOf(program, limits), signal)
    return await run(sandbox, program)
  }

  test('refuses forbidden actions of a jailed program', async () => {
    const { stdout, exit } = await once(python(ATTACKS))
    expect(exit.exitCode).toBe(0)
    const lines = stdout
      .trim()
      .split('\n')
      .map((line): [string, string] => {
        const [what = '', ...got] = line.split(' ')
        return [what, got.join(' ')]
      })
    expect(lines.length).toBe(64)
    for (const [what, got] of lines) {
      if (what === 'processes') expect(['[1, 2]', 'EACCES']).toContain(got)
      else expect(CLOSED, `${what}: ${got}`).toContain(got)
    }
  })

  test('protects its agent from being ended, stopped or confused', async () => {
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

  test('ends a fork bomb with its sandbox', async () => {
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

  test('gives each sandbox its own hash seed and address layout', async () => {
    const program = python(`import ctypes
print(hash('seed'), ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value, id(object()))`)
    const [first, second] = [await once(program), await once(program)].map(({ stdout }) =>
      stdout.trim().split(' '),
    )
    expect(first).toHaveLength(3)
    for (const [at, value] of first!.entries()) expect(second![at]).not.toBe(value)
  })

  test('gives programs no descriptor of the worker', async () => {
    const program: Program = { type: 'command', shell: 'echo /proc/self/fd/* /dev/fd/*' }
    const worker = spawn(
      process.execPath,
      [
        fileURLToPath(new URL('./worker-that-dies.ts', import.meta.url)),
        JSON.stringify({ ...settings, runtime_dir: runtimeDir }),
        newWorkerId('abcdefabcdef'),
        JSON.stringify(program),
      ],
      // fd 9 is one that a worker inherits itself: Node does not close it for its children.
      { stdio: ['ignore', 'pipe', 'inherit', ...Array<'ignore'>(6).fill('ignore'), 'ignore'] },
    )
    let said = ''
    worker.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString('latin1')))
    await new Promise((resolve) => worker.once('close', resolve))
    expect(said).toContain('/fd/')
    expect(said).not.toMatch(/fd\/(?:[4-9]|\d\d+)\b/)
  })

  test('limits writes to its disk, whose space the host gets back', async () => {
    if (!backend.capabilities.enforces.includes('disk')) {
      // The work directory has a size limit only if it is its own mount, as on every rung but this one.
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

  test('kills a program for memory without a cgroup too, and reports that', async () => {
    await using weak = await createBackend(
      processConfigSchema.parse({ ...settings, cgroups: false, runtime_dir: runtimeDir }),
      {},
    )
    // Takes up to twice the limit, because on a busy machine the memory watch looks late. The resource limits
    // allow even more.
    const program = python(`
import time
held = []
for _ in range(24):
    held.append(bytearray(b'x') * (8 << 20))
    time.sleep(0.01)
time.sleep(60)`)
    await using sandbox = await weak.open(specOf(program, { memory_mib: 96 }), signal)
    const { exit } = await run(sandbox, program)
    expect(exit.signal).toBe('SIGKILL')
    expect(exit.oomKills).toBeGreaterThan(0)
    expect(weak.capabilities.enforces).not.toContain('memory')
  })

  test('starts Node without a cgroup for a program with little memory', async () => {
    await using weak = await createBackend(
      processConfigSchema.parse({ ...settings, cgroups: false, runtime_dir: runtimeDir }),
      {},
    )
    const program: Program = { type: 'script', language: 'javascript', source: 'console.log("on")' }
    await using sandbox = await weak.open(specOf(program, { memory_mib: 96 }), signal)
    expect(await run(sandbox, program)).toMatchObject({ stdout: 'on\n', exit: { exitCode: 0 } })
  })

  test('ends the sandboxes of a killed worker, and another worker sweeps the record', async () => {
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
    await vi.waitFor(() => expect(commandLines(marker)).toEqual([]), { timeout: 20_000, interval: 20 })
    expect(await backend.owners()).toContain(dead)
    expect(await backend.sweep(dead)).toEqual({ destroyed: 1 })
    expect(await backend.owners()).not.toContain(dead)
  })

  needs('cgroup-v1').it(
    'finds the cgroup of a dead worker’s sandbox although that worker was in another group',
    async () => {
      const parent = `/sys/fs/cgroup/memory/${newSandboxId()}`
      mkdirSync(parent)
      try {
        const dead = newWorkerId('abcdefabcdef')
        const script = fileURLToPath(new URL('./worker-that-dies.ts', import.meta.url))
        const moved = `echo $$ > ${parent}/cgroup.procs; exec "$@"`
        const args = [
          process.execPath,
          script,
          JSON.stringify({ ...settings, runtime_dir: runtimeDir }),
          dead,
          'marker-of-none',
        ]
        const worker = spawn('sh', ['-c', moved, 'sh', ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
        await new Promise((resolve) => worker.stdout.once('data', resolve))
        const groups = (): string[] =>
          readdirSync(`${parent}/cofferdam`).filter((entry) => entry.startsWith('sbx_'))
        expect(groups()).toHaveLength(1)
        const exited = new Promise((resolve) => worker.once('exit', resolve))
        worker.kill('SIGKILL')
        await exited
        expect(await backend.sweep(dead)).toEqual({ destroyed: 1 })
        expect(groups()).toEqual([])
        rmdirSync(`${parent}/cofferdam`)
      } finally {
        await vi.waitFor(() => rmdirSync(parent), { timeout: 20_000, interval: 20 })
      }
    },
  )

  test('ends idle slots and cells of a killed worker, and another worker sweeps them', async () => {
    const dead = newWorkerId('abcdefabcdef')
    const worker = spawn(
      process.execPath,
      [
        fileURLToPath(new URL('./worker-that-dies.ts', import.meta.url)),
        JSON.stringify({ ...settings, runtime_dir: runtimeDir }),
        dead,
        'idle',
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const said = await new Promise<string>((resolve) =>
      worker.stdout.once('data', (chunk) => resolve(String(chunk))),
    )
    const folder = join(runtimeDir, 'sandboxes', 'process', dead)
    const pids = (): number[] =>
      (existsSync(folder) ? readdirSync(folder) : []).flatMap((id) => {
        try {
          return [(JSON.parse(readFileSync(join(folder, id, 'record.json'), 'utf8')) as { pid: number }).pid]
        } catch {
          return []
        }
      })
    // Besides the cell (if this backend has cells), a slot waits in the pool.
    const cells = JSON.parse(said) as number[]
    await vi.waitFor(() => expect(pids().length).toBeGreaterThan(cells.length), {
      timeout: 20_000,
      interval: 20,
    })
    const waiting = pids()
    expect(waiting).toEqual(expect.arrayContaining(cells))
    const exited = new Promise((resolve) => worker.once('exit', resolve))
    worker.kill('SIGKILL')
    await exited
    await vi.waitFor(() => expect(waiting.filter((pid) => existsSync(`/proc/${pid}`))).toEqual([]), {
      timeout: 20_000,
      interval: 20,
    })
    expect(await backend.owners()).toContain(dead)
    // A starting slot has a folder, but perhaps no uid yet.
    const slots = readdirSync(folder)
    const holders = holdersOfUids(runtimeDir, slots)
    if (process.getuid?.() === 0) expect(holders.length).toBeGreaterThanOrEqual(waiting.length)
    expect(await backend.sweep(dead)).toEqual({ destroyed: slots.length })
    expect(await backend.owners()).not.toContain(dead)
    expect(holdersOfUids(runtimeDir, slots)).toEqual([])
  })

  test('refuses memory that the memory watch cannot see', async () => {
    await using weak = await createBackend(
      processConfigSchema.parse({ ...settings, cgroups: false, runtime_dir: runtimeDir }),
      {},
    )
    const program = python(`
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
for x64, a64 in ((319, 279), (29, 194)):
    print(libc.syscall(a64 if arm else x64, 0, 4096, 0o1600), errno.errorcode[ctypes.get_errno()])
try:
    fd = os.memfd_create('hog')
    while True: os.write(fd, b'x' * (1 << 20))
except OSError as e: print(errno.errorcode[e.errno])`)
    await using sandbox = await weak.open(specOf(program), signal)
    expect((await run(sandbox, program)).stdout).toBe('-1 EPERM\n-1 EPERM\nEPERM\n')
    if (!weak.capabilities.enforces.includes('disk')) return
    // A tmpfs is memory too, and counts even if nobody has it open or mapped.
    const filler = python(`
import time
with open('big', 'wb') as f:
    for _ in range(40): f.write(b'x' * (1 << 20))
time.sleep(60)`)
    if (process.getuid?.() !== 0) return
    await using full = await weak.open(specOf(filler, { memory_mib: 32, disk_mib: 64 }), signal)
    const { exit } = await run(full, filler)
    expect(exit).toMatchObject({ signal: 'SIGKILL' })
    expect(exit.oomKills).toBeGreaterThan(0)
  })

  // bwrap counts files as memory, which the previous case covers.
  const onFolders = settings.jail === 'bwrap' ? () => undefined : test
  onFolders('keeps the number of files and their bytes within bounds', async () => {
    const program = python(`
import errno
try:
    for n in range(60000): open('f%d' % n, 'w').close()
    print('all')
except OSError as e: print(errno.errorcode[e.errno])`)
    const { exit, stdout } = await once(program, { disk_mib: 8 })
    if (backend.capabilities.enforces.includes('disk')) expect(stdout).toBe('ENOSPC\n')
    else if (exit.signal !== null) expect(exit).toMatchObject({ signal: 'SIGKILL', diskLimitHit: true })
    // If the program finished before the watch looked, the files are still removed at the end of the sandbox.
    else expect(stdout).toBe('all\n')
  })

  needs('root').it(
    'gives each sandbox its own uid if the worker is root, and frees it afterwards',
    async () => {
      const uidOf = (sandbox: Sandbox): string =>
        /^Uid:\t(\d+)/m.exec(
          readFileSync(`/proc/${String(sandbox.ref.handle['pid'])}/status`, 'utf8'),
        )?.[1] ?? ''
      const [a, b] = await Promise.all(
        [python(''), python('')].map((program) => backend.open(specOf(program), signal)),
      )
      if (a === undefined || b === undefined) throw new Error('two were opened')
      const uids = [uidOf(a), uidOf(b)]
      for (const uid of uids) expect(Number(uid)).toBeGreaterThanOrEqual(1_900_000_000)
      expect(new Set(uids).size).toBe(2)
      expect(uidsInUse(runtimeDir)).toEqual(expect.arrayContaining(uids))
      await Promise.all([a[Symbol.asyncDispose](), b[Symbol.asyncDispose]()])
      for (const uid of uids) expect(uidsInUse(runtimeDir)).not.toContain(uid)
    },
  )

  test('shows nothing of the host in its tree and in /proc', async () => {
    const { stdout } = await once(
      python(`
import json, os
read = {}
for name in ('cmdline', 'version', 'config.gz', 'diskstats', 'interrupts', 'kallsyms', 'kcore', 'keys', 'modules', 'partitions', 'timer_list'):
    try: read[name] = open('/proc/' + name, 'rb').read(64).decode('latin1')
    except OSError: read[name] = ''
try: mounts = open('/proc/self/mountinfo').read()
except OSError: mounts = ''
print(json.dumps({'read': read, 'mounts': mounts, 'root': os.path.exists('/root'), 'home': os.path.exists('/home'), 'sys': os.path.exists('/sys/kernel')}))`),
    )
    const seen = JSON.parse(stdout) as {
      read: Record<string, string>
      mounts: string
      root: boolean
      home: boolean
      sys: boolean
    }
    expect(new Set(Object.values(seen.read))).toEqual(new Set(['']))
    if (!backend.capabilities.enforces.includes('disk')) return
    expect([seen.root, seen.home, seen.sys]).toEqual([false, false, false])
    // The fourth field of a mount is the source of its bind: only system folders and our runtime folder may
    // be there. If the temporary folder is a file system of its own, the path begins at its root.
    const sources = seen.mounts
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[3] ?? '')
    expect(sources.length).toBeGreaterThan(5)
    const system = '/|/newroot|/usr(/.*)?|/s?bin|/lib\\w*|/(null|zero|full|u?random|tty)|/sys'
    const ours = `(/.*)?/${basename(runtimeDir)}/(files|guest|node)-[^/]+(/(etc|empty|node))?`
    if (process.getuid?.() === 0)
      for (const source of sources) expect(source).toMatch(new RegExp(`^(${system}|${ours})$`))
  })

  test('has a loopback in its own network, and no other socket family', async () => {
    const { stdout } = await once(
      python(`
import errno, socket
def attempt(family, kind, protocol=0):
    try: socket.socket(family, kind, protocol).close(); return 'open'
    except OSError as e: return errno.errorcode[e.errno]
try:
    server = socket.create_server(('127.0.0.1', 3128))
    socket.create_connection(('127.0.0.1', 3128), 2).close()
    print('loopback')
except OSError as e: print(errno.errorcode[e.errno])
print(*[attempt(*what) for what in ((16, 3), (17, 3), (38, 5), (40, 1), (31, 3), (29, 3), (2, 3, 1), (10, 3, 58))])`),
    )
    const [loopback = '', families = ''] = stdout.trim().split('\n')
    expect(loopback).toBe(backend.capabilities.enforces.includes('disk') ? 'loopback' : 'EPERM')
    for (const answer of families.split(' ')) expect(['EAFNOSUPPORT', 'EPERM']).toContain(answer)
  })

  test('sweeps without killing a process that reuses a dead sandbox’s pid', async () => {
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
}

needs('bwrap').describe('bwrap', () => attacks('bwrap', { jail: 'bwrap' }))
needs('self-jail').describe('self-jail', () => attacks('self-jail', { jail: 'self' }))
const LANDLOCK = 'self-jail without namespaces'
if (isLongTier())
  needs('landlock-jail').describe(LANDLOCK, () => attacks(LANDLOCK, { jail: 'self', namespaces: false }))

const ladderFolder = runtimeFolder()
test('never drops isolation by itself, and declares a plain subprocess as such', async () => {
  const runtime_dir = ladderFolder
  await using none = await createBackend(
    processConfigSchema.parse({ jail: 'bwrap', bwrap: '/nonexistent', runtime_dir }),
    {},
  )
  const probe = await none.probe(signal)
  expect(probe).toMatchObject({
    ok: false,
    why: expect.stringContaining('bubblewrap is not installed') as string,
  })
  expect(none.isolation).toBe('none')
  await expect(none.open(specOf(python('')), signal)).rejects.toMatchObject({ code: 'backend_unavailable' })

  await using plain = await createBackend(processConfigSchema.parse({ jail: 'plain', runtime_dir }), {})
  // Lower than `jail`: a tenant gets it only if its policy asks for no more than a process.
  expect(plain.isolation).toBe('process')
  expect(isAtLeast(plain.isolation, 'jail')).toBe(false)
  expect(plain.capabilities.sessions).toEqual([])
})

/** Command lines of living host processes with this text. */
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
