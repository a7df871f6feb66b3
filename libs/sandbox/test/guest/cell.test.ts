/** Cells with real agents: fork server, attacks on it, and the proof that nothing stays. */
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { Program } from '@cofferdam/contract'
import { isLongTier, needs, type PartName } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { AS_PROGRAM, openLab, PROGRAM_UID, stop, type Agent, type Lab } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

const python = (source: string): Program => ({ type: 'script', language: 'python', source })
const bash = (source: string): Program => ({ type: 'script', language: 'bash', source })
const isRoot = process.getuid?.() === 0

/**
 * Runs before a cell with mounts of its own starts. A cell restores every tmpfs that it can write, so those
 * of the host become read-only or are covered. The cell gets new ones: /dev/shm, /mnt, and /tmp, where the
 * guest's files ($1) stay readable.
 */
const OWN_MOUNTS = `set -e
while read -r _ at kind _; do
  case "$kind:$at" in
    *:/proc*|*:/sys*|*:/dev) ;;
    tmpfs:*|ramfs:*|mqueue:*) mount -o remount,bind,ro "$at" || mount -t tmpfs -o ro tmpfs "$at";;
  esac
done </proc/mounts
mount --bind "$1" /mnt
mount -t tmpfs -o size=8m,mode=1777 tmpfs /tmp
mkdir -p "$1"
mount --bind /mnt "$1"
mount -o remount,bind,ro "$1"
mount -t tmpfs -o size=32m,nr_inodes=20k,mode=1777 tmpfs /mnt
mount -t tmpfs -o size=8m,mode=1777 tmpfs /dev/shm`

/**
 * A sandbox as a backend makes one: own processes, System V objects and mounts, and a work directory on a
 * small tmpfs.
 */
function jailed(user: boolean, last = 'true'): { within: string[]; work: string } {
  const script = `${OWN_MOUNTS}\n${last}; shift; exec "$@"`
  const flags = [...(user ? ['--user', '--map-root-user'] : []), '--pid', '--fork', '--mount', '--ipc']
  const shell = ['sh', '-c', script, 'sh', dirname(lab.guestDir)]
  return { within: ['unshare', ...flags, '--mount-proc', '--kill-child', ...shell], work: '/mnt/work' }
}

interface Place {
  name: string
  /** Whether agent and program have different uids. */
  isSplit: boolean
  hasOwnPids: boolean
  needs: readonly PartName[]
  open: () => { within?: string[]; work?: string }
}

test('shows later runs what a session installed, whatever interpreter waited before', async () => {
  const agent = await lab.start('python', { cell: true })
  const files = [
    { path: '.packages/sums.py', bytes: Buffer.from('add = lambda a, b: a + b\n') },
    { path: '.packages/bin/hello', bytes: Buffer.from('#!/bin/sh\necho hello\n'), executable: true },
  ]
  await agent.session.write(files)
  expect(await agent.run(python('import sums; print(sums.add(1, 1))'))).toMatchObject({ stdout: '2\n' })
  await agent.session.clean('files')
  expect(await agent.run(python('import sums; print(sums.add(2, 2))'))).toMatchObject({ stdout: '4\n' })
  expect(await agent.run(bash('hello; python3 -c "import sums; print(sums.__name__)"'))).toMatchObject({
    stdout: 'hello\nsums\n',
  })
  await agent.session.clean('none')
  expect((await agent.run(python('import sums'))).stderr).toContain('ModuleNotFoundError')
  await stop(agent)
})

test('reports how many processes wait for the next program, whatever ran before', async () => {
  const agent = await lab.start('none', { cell: true })
  const node: Program = { type: 'script', language: 'javascript', source: '1' }
  const waiting: number[] = []
  for (const program of [bash('true'), python('1'), bash('true'), node, python('1')]) {
    await agent.run(program)
    waiting.push(await agent.session.clean('files'))
  }
  // After a shell, the fork server and its fork still wait. After Node.js, the fork server and a Node.js
  // process wait.
  expect(waiting).toEqual([0, 2, 2, 2, 2])
  await stop(agent)
})

const PLACES: Place[] = [
  { name: 'a process with two uids', isSplit: true, hasOwnPids: false, needs: ['root'], open: () => ({}) },
  {
    name: 'a process with one uid',
    isSplit: false,
    hasOwnPids: false,
    needs: isRoot ? ['setpriv'] : [],
    open: () => (isRoot ? { within: ['setpriv', ...AS_PROGRAM] } : {}),
  },
  {
    name: 'namespaces with two uids',
    isSplit: true,
    hasOwnPids: true,
    needs: ['mounts'],
    open: () => jailed(false),
  },
  {
    name: 'a user namespace with one uid',
    isSplit: false,
    hasOwnPids: true,
    needs: ['user-namespaces', 'setpriv'],
    open: () => {
      const { within, work } = jailed(true)
      // Only uid 0 exists there, so the agent must not try to use another one.
      return { within: [...within, 'setpriv', '--bounding-set=-all'], work }
    },
  },
]

/** Each kind of separation once: two uids, and namespaces. */
const DAILY = ['a process with two uids', 'a user namespace with one uid']
const TRIED = isLongTier() ? PLACES : PLACES.filter(({ name }) => DAILY.includes(name))

const startCell = (place: Place, options: { preload?: string[]; work?: string } = {}): Promise<Agent> =>
  lab.start('python', { cell: true, ...place.open(), ...options })

/** In memory, because thousands of files on a busy disk take long (ext4 beside Postgres: 8 s). */
function memoryFolder(): string {
  const path = mkdtempSync('/dev/shm/cofferdam-cell-')
  chmodSync(path, 0o755)
  if (isRoot) chownSync(path, PROGRAM_UID, PROGRAM_UID)
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** What a fork inherits, as the program sees it. */
const STATE = `import fcntl, os, resource, sys, json
names = sorted(n for n in dir(resource) if n.startswith("RLIMIT_"))
print(json.dumps([[resource.getrlimit(getattr(resource, n)) for n in names], os.getpriority(os.PRIO_PROCESS, 0),
  sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0), os.umask(0o22), os.getcwd(), sorted(os.environ),
  sorted(os.listdir(".")), sorted(map(int, os.listdir("/proc/self/fd")))[:3], os.getuid(), os.getgroups(),
  [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in range(3)],
  sorted(m for m in sys.modules if m not in ("_ast", "marshal"))]))`

const KILL_ALL = 'kill -9 of all'
const ATTACKS: Record<string, string> = {
  // Only in a pid namespace: elsewhere it would reach all processes of this user.
  [KILL_ALL]: `try: os.kill(-1, 9)
except OSError as e: told.append(e.errno)`,
  SIGSTOP: `for pid in others:
    try: os.kill(pid, signal.SIGSTOP); told.append("done")
    except OSError as e: told.append(e.errno)`,
  'SIGSTOP and SIGCONT': `for pid in others:
    for s in (signal.SIGSTOP, signal.SIGCONT, signal.SIGWINCH, signal.SIGCHLD):
        try: os.kill(pid, s); told.append("done")
        except OSError as e: told.append(e.errno)`,
  SIGINT: `for pid in others:
    try: os.kill(pid, signal.SIGINT); told.append("done")
    except OSError as e: told.append(e.errno)`,
  'flags of its open files': `for fd in range(3):
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_APPEND)`,
  ptrace: `for pid in others:
    told.append(libc.ptrace(16, pid, 0, 0))
    told.append(libc.ptrace(0x4206, pid, 0, 0))`,
  '/proc/<pid>/mem': `for pid in others:
    for name in ("mem", "fd/0", "fd/198", "environ", "maps", "oom_score_adj", "clear_refs", "cwd"):
        try: open("/proc/%d/%s" % (pid, name), "r+b" if name != "maps" else "rb").read(1); told.append("done " + name)
        except OSError as e: told.append(e.errno)
    buffer = ctypes.create_string_buffer(8)
    iov = struct.pack("<QQ", ctypes.addressof(buffer), 8)
    told.append(libc.process_vm_readv(pid, iov, 1, iov, 1, 0))`,
  prlimit: `for pid in others:
    try: resource.prlimit(pid, resource.RLIMIT_NOFILE, (10, 10)); told.append("done")
    except OSError as e: told.append(e.errno)`,
  scheduling: `for pid in others:
    for call in (lambda: os.setpriority(os.PRIO_PROCESS, pid, 19), lambda: os.sched_setaffinity(pid, [0]),
                 lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))):
        try: call(); told.append("done")
        except OSError as e: told.append(e.errno)`,
}
/** Attacks every other Python child of the agent: the fork server and the waiting interpreter. */
const attack = (body: string): Program => python(attackSource(body, 'os.getppid()'))
/** The same from a shell, beside which a fork for the next Python program waits. */
const attackBeside = (body: string): Program =>
  bash(
    `exec 3<<'END'\n${attackSource(body, 'parent_of(os.getppid())')}\nEND\n/usr/bin/python3 /dev/fd/3; true`,
  )
const attackSource = (
  body: string,
  agent: string,
): string => `import ctypes, fcntl, os, resource, signal, struct
libc = ctypes.CDLL(None)
def parent_of(pid):
    return [int(line.split()[1]) for line in open("/proc/%d/status" % pid) if line.startswith("PPid:")][0]
agent, others = ${agent}, []
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    try:
        if pid not in (os.getpid(), os.getppid()) and parent_of(pid) == agent: others.append(pid)
    except OSError: pass
told = [len(others)]
${body}
print(told)`

const WAKES_ITSELF = `import ctypes, os, resource, signal, struct, threading, time
libc, agent = ctypes.CDLL(None), os.getppid()
def children():
    with open("/proc/%d/task/%d/children" % (agent, agent)) as found: return set(map(int, found.read().split()))
known = children()
def aim():
    rounds = 0
    while True:
        rounds += 1
        for pid in children() - known:
            try: resource.prlimit(pid, resource.RLIMIT_NOFILE, (10, 10))
            except OSError: pass
        if rounds > 50: open("woken", "w").close()
        time.sleep(0.002)
# Linux 6.13 rings once for an ignored signal. On a busy machine that is before the stop, so ring later too.
for wait_ms in (20, 100, 500, 2000, 5000, 10000):
    timer = ctypes.c_void_p()
    libc.timer_create(1, struct.pack("<qii48x", 0, signal.SIGCONT, 0), ctypes.byref(timer))
    libc.timer_settime(timer, 0, struct.pack("<qqqq", 0, 0, wait_ms // 1000, wait_ms % 1000 * 1_000_000), None)
threading.Thread(target=aim, daemon=True).start()`

for (const place of TRIED)
  needs(...place.needs).describe(`a cell in ${place.name}`, () => {
    test('gives every run the first one’s state, and no process of an earlier one', async () => {
      const cell = await startCell(place)
      const seen: string[] = []
      const pids = new Set<number>()
      for (let n = 0; n < 4; n++) {
        seen.push((await cell.run(python(STATE))).stdout)
        await cell.run(python('import os, subprocess\nopen("left", "w")\nsubprocess.Popen(["sleep", "600"])'))
        await cell.session.clean('none')
        const { stdout } = await cell.run(python('import os, random\nprint(os.getpid())\nrandom.random()'))
        pids.add(Number(stdout))
        await cell.session.clean('none')
      }
      expect(seen[0]).toContain('"main.py"')
      expect(new Set(seen).size, seen.join('')).toBe(1)
      expect(pids.size).toBe(4)
      await stop(cell)
    })

    const attacks = Object.entries(ATTACKS).filter(([name]) => place.hasOwnPids || name !== KILL_ALL)
    test.each(attacks)('prevents a program from changing the next run by %s', async (_name, body) => {
      const cell = await startCell(place)
      const before = (await cell.run(python(STATE))).stdout
      const hit = await cell.run(attack(body))
      await cell.session.clean('none')
      const after = await cell.run(python(STATE))
      expect({ stdout: after.stdout, stderr: after.stderr }).toEqual({ stdout: before, stderr: '' })
      if (place.isSplit && hit.stdout !== '') {
        expect(hit.stdout).toMatch(/^\[[1-9]/)
        expect(hit.stdout).not.toContain('done')
      }
      if (/ptrace|mem/.test(body))
        expect(hit.stdout.replace("'done oom_score_adj'", '')).not.toMatch(/done|[^-\d]0[,\]]/)
      await stop(cell)
    })

    test.each(attacks)(
      'prevents a program beside a waiting fork from changing the next run by %s',
      async (_name, body) => {
        const cell = await startCell(place)
        const before = (await cell.run(python(STATE))).stdout
        const hit = await cell.run(attackBeside(body))
        // The attack finds two processes: the fork server and the waiting fork. Its `kill` also ends the
        // shell, whose output is then lost.
        if (hit.stdout !== '') expect(hit.stdout).toMatch(/^\[2/)
        await cell.session.clean('none')
        const after = await cell.run(python(STATE))
        expect({ stdout: after.stdout, stderr: after.stderr }).toEqual({ stdout: before, stderr: '' })
        await stop(cell)
      },
    )

    test('prevents a kept interpreter from changing the waiting one', async () => {
      const cell = await startCell(place)
      const before = (await cell.run(python(STATE))).stdout
      // The agent stops the kept interpreter after its run, but its timer wakes it and its thread attacks new
      // processes. On a busy machine it can wake while the agent stops it. Then the agent kills it, and the
      // loop tries another one.
      const isKept = (): boolean => cell.session.interpreterAlive()
      for (let tries = 0; tries < 10 && !isKept(); tries += 1)
        await cell.run(python(WAKES_ITSELF), {}, {}, { keepInterpreter: true })
      if (isKept())
        await expect
          .poll(async () => (await cell.session.list(['woken'], 2)).length, { timeout: 20_000 })
          .toBe(1)
      await cell.session.clean('none')
      const after = await cell.run(python(STATE))
      expect({ stdout: after.stdout, stderr: after.stderr }).toEqual({ stdout: before, stderr: '' })
      await stop(cell)
    })

    test('wipes deep trees, locked directories, unusual names, links, and many files', async () => {
      const cell = await startCell(place, place.hasOwnPids ? {} : { work: memoryFolder() })
      await cell.run(
        python(`import os, sys
def deep(n):
    fd = os.open(".", os.O_RDONLY)
    for i in range(n):
        os.mkdir("d", dir_fd=fd); below = os.open("d", os.O_RDONLY, dir_fd=fd); os.close(fd); fd = below
deep(1500)
os.mkdir("closed"); open("closed/in", "w"); os.mkdir("closed/sub"); open("closed/sub/x", "w")
os.chmod("closed/sub", 0); os.chmod("closed", 0)
open("new\\nline", "w"); open(b"\\xff\\xfe", "w"); os.symlink("/", "root"); os.symlink(".", "self")
os.mkfifo("fifo"); os.mkdir(".hidden")
os.mkdir("many")
for i in range(5000): open("many/%d" % i, "w")
os.chmod(".", 0o500)`),
      )
      await cell.session.clean('none')
      const { stdout } = await cell.run(bash('ls -A; stat -c %a .'))
      expect(stdout).toBe('main.sh\n755\n')
      expect(readdirSync('/').length).toBeGreaterThan(3)
      await stop(cell)
    })

    test('keeps the work directory but no process with keep files', async () => {
      const cell = await startCell(place)
      // The process ID in the duration tells this test's `sleep` from others on this machine.
      const sleeper = `sleep 600.${process.pid}`
      await cell.run(bash(`echo one > kept; (trap "" TERM; setsid ${sleeper}) & echo up`))
      await cell.session.clean('files')
      expect((await cell.run(bash(`cat kept; pgrep -xf '${sleeper}' | head -1`))).stdout).toBe('one\n')
      await cell.session.clean('none')
      expect((await cell.run(bash('ls -A'))).stdout).toBe('main.sh\n')
      await stop(cell)
    })

    test('ends a run that is still going when the cell is cleaned', async () => {
      const cell = await startCell(place)
      const enough = new AbortController()
      const running = cell.run(python('import time\nprint("up", flush=True)\ntime.sleep(600)'), {
        signal: enough.signal,
        onOutput: () => enough.abort(new Error('enough')),
      })
      await expect(running).rejects.toThrow('enough')
      await cell.session.clean('none')
      expect((await cell.run(python('print(2)'))).stdout).toBe('2\n')
      await stop(cell)
    })
  })

/** Keeps a process from the processor, like a busy machine: cgroups v1 or v2. */
const FREEZER = [
  { root: '/sys/fs/cgroup/freezer', file: 'freezer.state', hold: 'FROZEN', go: 'THAWED', said: 'FROZEN' },
  { root: '/sys/fs/cgroup', file: 'cgroup.freeze', hold: '1', go: '0', said: 'frozen 1' },
].find(({ root }) => existsSync(join(root, 'cgroup.procs')))

/** Freezes the process `pid` until the returned function is called. */
async function hold(
  pid: number,
  { root, file, hold: held, go, said }: typeof FREEZER & {},
): Promise<() => void> {
  const group = mkdtempSync(join(root, 'cofferdam-cell-'))
  const letGo = (): void => writeFileSync(join(group, file), go)
  onTestFinished(async () => {
    letGo()
    await vi.waitFor(() => rmdirSync(group), { timeout: 20_000 })
  })
  writeFileSync(join(group, 'cgroup.procs'), String(pid))
  writeFileSync(join(group, file), held)
  const state = join(group, file === 'cgroup.freeze' ? 'cgroup.events' : file)
  await expect.poll(() => readFileSync(state, 'utf8'), { timeout: 20_000 }).toContain(said)
  return letGo
}

const oneUid = PLACES.find((place) => place.name === 'a process with one uid')!
needs('freezer', ...oneUid.needs).it.each(['SIGINT', 'SIGSTOP', 'SIGKILL'] as const)(
  'protects the next run from a %s that its waiting interpreter has not yet handled',
  async (signal) => {
    const cell = await startCell(oneUid)
    await cell.run(bash('true'))
    const agent = cell.child.pid!
    const waits = readFileSync(`/proc/${agent}/task/${agent}/children`, 'utf8').trim().split(' ').at(-1)!
    const letGo = await hold(Number(waits), FREEZER!)
    onTestFinished(() => stop(cell))
    process.kill(Number(waits), signal)
    await cell.session.clean('none')
    const after = cell.run(python('print(2)'))
    // When main.py exists, the agent has received the run and is checking the waiting interpreter.
    await expect.poll(() => existsSync(join(cell.work, 'main.py')), { timeout: 20_000 }).toBe(true)
    letGo()
    expect(await after).toMatchObject({ stdout: '2\n', stderr: '' })
  },
)

needs('freezer', ...oneUid.needs).it(
  'keeps a session whose killed process takes seconds to end',
  async () => {
    const cell = await startCell(oneUid)
    onTestFinished(() => stop(cell))
    const running = cell.run(
      bash(
        'sleep 600 & echo $! > pid.new; mv pid.new pid; until [ -e go ]; do sleep 0.02; done; echo x > note',
      ),
    )
    await expect.poll(() => existsSync(join(cell.work, 'pid')), { timeout: 20_000 }).toBe(true)
    const letGo = await hold(Number(readFileSync(join(cell.work, 'pid'), 'utf8')), FREEZER!)
    writeFileSync(join(cell.work, 'go'), '')
    await running
    const since = performance.now()
    const cleaned = cell.session.clean('files')
    // Longer than the end of a run waits for what it killed.
    await vi.waitFor(() => expect(performance.now() - since).toBeGreaterThan(2500), { timeout: 20_000 })
    letGo()
    await cleaned
    expect((await cell.run(bash('cat note'))).stdout).toBe('x\n')
  },
)

for (const place of TRIED.filter(({ hasOwnPids }) => !hasOwnPids))
  needs(...place.needs).it(
    `keeps a cell in ${place.name} although others have files on the same tmpfs`,
    async () => {
      const cell = await startCell(place, { work: memoryFolder() })
      await cell.run(bash('echo one > left'))
      writeFileSync(join(memoryFolder(), 'of-another'), Buffer.alloc(100_000))
      await cell.session.clean('none')
      expect((await cell.run(bash('ls -A'))).stdout).toBe('main.sh\n')
      await stop(cell)
    },
  )

needs('mounts').it('wipes the mounts of a cell without /proc', async () => {
  const cell = await lab.start('python', { cell: true, ...jailed(false, 'mount -t tmpfs tmpfs /proc') })
  expect(await cell.run(bash('ls /proc; echo x > /dev/shm/left; echo x > note'))).toMatchObject({
    exit: { exitCode: 0 },
    stdout: '',
  })
  await cell.session.clean('files')
  expect((await cell.run(bash('ls -A /dev/shm; cat note'))).stdout).toBe('x\n')
  await stop(cell)
})

for (const place of TRIED.filter(({ name }) => name.includes('namespace')))
  needs(...place.needs).describe(`a cell in ${place.name}`, () => {
    test('leaves no shared memory, no file beside the work directory and no System V object', async () => {
      const cell = await startCell(place)
      await cell.run(
        python(`import ctypes, os
libc = ctypes.CDLL(None)
print(libc.shmget(77, 4096, 0o1666), libc.semget(78, 1, 0o1666), libc.msgget(79, 0o1666))
open("/dev/shm/left", "w").write("x" * 100000)
open("../beside", "w").write("x")`),
      )
      await cell.session.clean('none')
      const { stdout } = await cell.run(
        bash(
          'wc -l < /proc/sysvipc/shm; wc -l < /proc/sysvipc/sem; wc -l < /proc/sysvipc/msg; ls -A /dev/shm ..',
        ),
      )
      expect(stdout.replace(/ +/g, '')).toMatch(/^1\n1\n1\n\.\.:\nwork\n\n\/dev\/shm:\n$/)
      await stop(cell)
    })

    test('is given up if the work directory was replaced', async () => {
      const cell = await startCell(place)
      await cell.run(bash('here=$PWD; cd ..; mv work other && ln -s /etc work; ls -ld $here'))
      const cleaning = cell.session.clean('none')
      await expect(cleaning).rejects.toMatchObject({ code: 'sandbox_lost' })
      await stop(cell)
    })
  })

test('imports a preload before the program, and not where it could change a result', async () => {
  const room = lab.folder()
  const libs = join(room, 'libs')
  mkdirSync(libs)
  writeFileSync(
    join(libs, 'counted.py'),
    'import time, random\nborn = time.monotonic()\ndef fail(): raise KeyError("k")\n',
  )
  const env = { PATH: '/usr/bin:/bin', HOME: '/tmp', LANG: 'C.UTF-8', PYTHONPATH: libs }
  const modules = ['counted', 'json', 'decimal', 'asyncio', 'sqlite3']
  for (const cellular of [false, true]) {
    const agent = await lab.start('python', { cell: cellular, preload: modules, env })
    const { stdout } = await agent.run(
      python(`import time, os
began = time.monotonic()
import counted, json, decimal, asyncio, sqlite3, sys, threading, gc
print(counted.born < began, "OMP_NUM_THREADS" in os.environ, "COFFERDAM_PRELOAD" in os.environ, threading.active_count())
print(sqlite3.connect(":memory:").execute("select 1+1").fetchone(), decimal.Decimal(1) / 8, asyncio.run(asyncio.sleep(0, 5)))
print(counted.random.random() == 0)`),
    )
    expect(stdout).toBe('True False False 1\n(2,) 0.125 5\nFalse\n')
    await stop(agent)
  }
  const cell = await lab.start('python', { cell: true, preload: modules, env })
  const draw = python('import random\nprint(random.random(), random.getrandbits(64))')
  const draws = [await cell.run(draw), await cell.run(draw), await cell.run(draw)].map((ran) => ran.stdout)
  expect(new Set(draws).size).toBe(3)
  // A program with its own decimal.py, or its own number of threads, gets an interpreter without the preload.
  await cell.session.write([{ path: 'decimal.py', bytes: Buffer.from('mine = 1') }])
  expect((await cell.run(python('import decimal\nprint(decimal.mine)'))).stdout).toBe('1\n')
  await cell.session.clean('none')
  const own = await cell.run(
    python('import os, sys\nprint(os.environ["OMP_NUM_THREADS"], "sqlite3" in sys.modules)'),
    {},
    { OMP_NUM_THREADS: '2' },
  )
  expect(own.stdout).toBe('2 False\n')
  await stop(cell)
})

test.each([
  ['no_such_module_here', 'No module named'],
  ['holds_a_thread', 'left a thread running'],
  ['holds_a_file', 'left a file or socket open'],
  ['fails', 'ZeroDivisionError'],
])('refuses to wait with an unsuitable preload: %s', async (name, said) => {
  const libs = join(lab.folder(), 'libs')
  mkdirSync(libs)
  writeFileSync(
    join(libs, 'holds_a_thread.py'),
    'import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n',
  )
  writeFileSync(join(libs, 'holds_a_file.py'), 'f = open("/etc/passwd")\n')
  writeFileSync(join(libs, 'fails.py'), '1 / 0\n')
  const env = { PATH: '/usr/bin:/bin', HOME: '/tmp', LANG: 'C.UTF-8', PYTHONPATH: libs }
  for (const cell of [false, true])
    await expect(lab.start('python', { cell, preload: [name], env })).rejects.toMatchObject({
      code: 'sandbox_open_failed',
      details: { said: expect.stringContaining(said) as string },
    })
})

test('runs four languages in one cell', async () => {
  const cell = await lab.start('python', { cell: true })
  const script = (language: 'javascript' | 'typescript', source: string): Program => ({
    type: 'script',
    language,
    source,
  })
  for (let n = 0; n < 2; n++) {
    expect((await cell.run(script('javascript', 'console.log(1)'))).stdout).toBe('1\n')
    expect((await cell.run(bash('echo 2'))).stdout).toBe('2\n')
    expect((await cell.run(python('print(3)'))).stdout).toBe('3\n')
    expect((await cell.run(script('typescript', 'const x: number = 4; console.log(x)'))).stdout).toBe('4\n')
    await cell.session.clean('none')
  }
  await stop(cell)
})
