/**
 * Additions of the docker backend to the contract: known attacks against a hardened container, and what must
 * work under the seccomp profile.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type Backend,
  type Program,
  type Sandbox,
} from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import Docker from 'dockerode'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { createDockerBackend } from './index.ts'

const docker = new Docker()
let backend: Backend

// A separate fleet, so that no janitor sweeps its sandboxes.
const owner = newWorkerId('facade000001')
const python = (source: string): Program => ({ type: 'script', language: 'python', source })

const open = (program: Program): Promise<Sandbox> =>
  backend.open(
    {
      sandboxId: newSandboxId(),
      executionId: newExecutionId(),
      attempt: 1,
      tenantId: 'hardening',
      owner,
      program,
      limits: DEFAULT_LIMITS,
      network: 'none',
      env: {},
      preload: null,
      reuse: 'job',
      session: null,
    },
    new AbortController().signal,
  )

async function output(program: Program): Promise<string> {
  await using sandbox = await open(program)
  let text = ''
  const exit = await sandbox.run(program, {
    signal: new AbortController().signal,
    maxOutputBytes: { stdout: 1_000_000, stderr: 1_000_000 },
    onOutput: (_stream, chunk) => {
      text += Buffer.from(chunk).toString()
    },
  })
  expect({ ...exit, text }).toMatchObject({ exitCode: 0 })
  return text
}

needs('docker').describe('docker hardening', () => {
  beforeAll(async () => {
    backend = await createDockerBackend()
    expect(await backend.probe(AbortSignal.timeout(60_000))).toMatchObject({ ok: true })
  })
  afterAll(async () => {
    await backend.sweep(owner)
    await backend[Symbol.asyncDispose]()
  })

  test('forbids system calls that have been used to escape from containers', async () => {
    const said = await output(
      python(`
import ctypes, errno, json, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
calls = {
    'io_uring_setup': (425, 425), 'userfaultfd': (323, 282), 'keyctl': (250, 219), 'add_key': (248, 217),
    'bpf': (321, 280), 'ptrace': (101, 117), 'setns': (308, 268), 'mount': (165, 40), 'perf_event_open': (298, 241),
    'process_vm_readv': (310, 270), 'pidfd_getfd': (438, 438), 'open_tree': (428, 428), 'fsopen': (430, 430), 'chroot': (161, 51),
    'kcmp': (312, 272), 'vmsplice': (278, 75), 'open_by_handle_at': (304, 265), 'clone3': (435, 435),
}
out = {}
def tell(name, result):
    out[name] = 'allowed' if result >= 0 else errno.errorcode[ctypes.get_errno()]
for name, numbers in calls.items():
    tell(name, libc.syscall(numbers[arm], 0, 0, 0, 0, 0))
tell('unshare user', libc.unshare(0x10000000))
tell('clone user', libc.syscall(220 if arm else 56, 0x10000000 | 17, 0, 0, 0, 0))
for name, family in (('netlink', 16), ('packet', 17), ('alg', 38), ('vsock', 40)):
    try:
        socket.socket(family, socket.SOCK_RAW if family in (16, 17) else socket.SOCK_STREAM)
        out[name] = 'allowed'
    except OSError as error:
        out[name] = errno.errorcode[error.errno]
print(json.dumps(out))
`),
    )
    const { clone3, ...rest } = JSON.parse(said) as Record<string, string>
    // Without clone3, libc falls back to clone, whose flags the filter can read.
    expect(clone3).toBe('ENOSYS')
    expect(new Set(Object.values(rest))).toEqual(new Set(['EPERM']))
    expect(Object.keys(rest)).toHaveLength(23)
  })

  test('protects the agent from signals, tracing, limits and memory access of the program', async () => {
    const said = await output(
      python(`
import json, os, resource, signal
out = {}
def attempt(name, work):
    try:
        work()
        out[name] = 'allowed'
    except OSError as error:
        out[name] = type(error).__name__
attempt('kill', lambda: os.kill(1, signal.SIGKILL))
attempt('prlimit', lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)))
attempt('environ', lambda: open('/proc/1/environ').read())
attempt('mem', lambda: open('/proc/1/mem', 'rb').read(1))
attempt('fds', lambda: os.listdir('/proc/1/fd'))
attempt('setuid', lambda: os.setuid(0))
attempt('setgid', lambda: os.setgid(0))
attempt('setgroups', lambda: os.setgroups([0]))
attempt('raise priority', lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
print(json.dumps(out))
`),
    )
    expect(new Set(Object.values(JSON.parse(said) as object))).toEqual(new Set(['PermissionError']))
  })

  test('has a read-only root, one limited writable folder, and no data about the host', async () => {
    const said = await output(
      python(`
import json, os
out = {'written': [], 'read': {}}
for place in ('/', '/etc', '/usr/lib/cofferdam/agent', '/proc/sys/kernel', '/sys/fs/cgroup', '/var', '/dev/x', '/tmp', '/dev/shm'):
    try:
        open(place + '/probe', 'w').close()
        out['written'].append(place)
    except OSError:
        pass
for path in ('/proc/cmdline', '/proc/version', '/proc/kcore', '/proc/keys', '/proc/diskstats', '/proc/config.gz', '/sys/kernel/notes', '/sys/kernel/vmcoreinfo'):
    try:
        out['read'][path] = open(path, 'rb').read(10).decode('latin1')
    except OSError:
        out['read'][path] = ''
folders = ('block', 'class/block', 'dev/block', 'devices/pci0000:00', 'devices/virtual/block', 'bus', 'fs/ext4', 'fs/xfs', 'fs/btrfs', 'module')
out['sys'] = [name for folder in folders if os.path.exists('/sys/' + folder) for name in os.listdir('/sys/' + folder)]
out['cpus'] = os.path.exists('/sys/devices/system/cpu/online')
out['interfaces'] = [line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]]
out['host'] = os.uname().nodename
made = 0
try:
    for made in range(40000): open('/tmp/e%d' % made, 'w').close()
except OSError:
    pass
out['inodes'] = made
print(json.dumps(out))
`),
    )
    const { inodes, read, ...rest } = JSON.parse(said) as { inodes: number; read: Record<string, string> }
    expect(rest).toEqual({
      written: ['/tmp', '/dev/shm'],
      sys: [],
      cpus: true,
      interfaces: ['lo'],
      host: 'sandbox',
    })
    expect(new Set(Object.values(read))).toEqual(new Set(['']))
    expect(inodes).toBeGreaterThan(1000)
    expect(inodes).toBeLessThan(16_384)
  })

  test.each([
    [
      'Python threads, multiprocessing with locks and shared memory, asyncio subprocesses, sqlite, loopback TCP',
      python(`
import asyncio, multiprocessing, multiprocessing.shared_memory, socket, sqlite3, tempfile, threading
def square(n): return n * n
if __name__ == '__main__':
    got = []
    threads = [threading.Thread(target=got.append, args=(n,)) for n in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    with multiprocessing.Pool(2) as pool: assert pool.map(square, range(4)) == [0, 1, 4, 9]
    block = multiprocessing.shared_memory.SharedMemory(create=True, size=4096); block.close(); block.unlink()
    async def child():
        process = await asyncio.create_subprocess_exec('echo', 'hi', stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0]
    assert asyncio.run(child()) == b'hi\\n'
    with tempfile.NamedTemporaryFile() as file: sqlite3.connect(file.name).execute('create table t (a)')
    server = socket.create_server(('127.0.0.1', 0))
    socket.create_connection(server.getsockname(), 1).close()
    print('all good')
`),
    ],
    [
      'Node workers, child processes, timers, crypto, zlib and file watching',
      {
        type: 'script',
        language: 'javascript',
        source: `
const { Worker } = require('node:worker_threads')
const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
require('node:zlib').gzipSync(require('node:crypto').randomBytes(1000))
fs.watch('.').close()
if (execFileSync('echo', ['hi']).toString() !== 'hi\\n') process.exit(1)
const worker = new Worker('require("node:worker_threads").parentPort.postMessage(1)', { eval: true })
worker.on('message', () => setTimeout(() => console.log('all good'), 5))
`,
      },
    ],
    [
      'bash pipelines, substitution, jobs and here documents',
      {
        type: 'script',
        language: 'bash',
        source: `
set -euo pipefail
seq 1 100 | sort -r | head -1 > /dev/null || true
[ "$(cat <(echo a) <(echo b) | tr -d '\\n')" = ab ]
sleep 0.01 & wait
tar -cf - /etc/passwd 2>/dev/null | tar -tf - | grep -q passwd
awk 'BEGIN { printf "" }'
cat <<END
all good
END
`,
      },
    ],
  ] as [string, Program][])('lets programs use %s', async (_what, program) => {
    expect(await output(program)).toBe('all good\n')
  })

  test('ends a sandbox if its worker is killed with SIGKILL', async () => {
    const orphaned = newWorkerId('facade000002')
    const source = `
      const { createDockerBackend } = await import(${JSON.stringify(fileURLToPath(new URL('index.ts', import.meta.url)))})
      const { DEFAULT_LIMITS, newExecutionId, newSandboxId } = await import('@cofferdam/contract')
      const program = { type: 'script', language: 'python', source: 'print(1, flush=True)\\nwhile True: pass' }
      const backend = await createDockerBackend()
      const sandbox = await backend.open({ sandboxId: newSandboxId(), executionId: newExecutionId(), attempt: 1,
        tenantId: 't', owner: '${orphaned}', program, limits: DEFAULT_LIMITS, network: 'none', env: {}, preload: null,
        reuse: 'job' }, new AbortController().signal)
      await sandbox.run(program, { signal: new AbortController().signal, maxOutputBytes: { stdout: 10, stderr: 10 },
        onOutput: () => console.log('running') })`
    const worker = spawn(process.execPath, ['--input-type=module', '--eval', source], {
      cwd: fileURLToPath(new URL('.', import.meta.url)),
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await new Promise((resolve) => worker.stdout.once('data', resolve))
    expect(await backend.owners()).toContain(orphaned)
    worker.kill('SIGKILL')
    const filters = { label: [`cofferdam.owner=${orphaned}`] }
    await vi.waitFor(async () => expect(await docker.listContainers({ all: true, filters })).toEqual([]), {
      timeout: 20_000,
      interval: 50,
    })
  })
})
