/**
 * Executions that share a sandbox: what one of them leaves behind, and does to the processes that wait for
 * the next one. The next execution either finds a sandbox that looks fresh, or gets a fresh one.
 */
import { expect, test } from 'vitest'
import { agentOf, processesNamed, processesOf, statusOf } from './host.ts'
import { eventually, onTargets, program } from './on-targets.ts'
import { bash, isWarm, python, type Ended, type Target } from './target.ts'

type Scope = 'none' | 'files' | 'interpreter'
type Look = Record<string, unknown>

/** Enough for what the attacks leave: the deep tree, 2,000 empty files, a MiB or two. */
const limits = { pids: 64, memory_mib: 160, disk_mib: 32, soft_timeout_ms: 30_000, hard_timeout_ms: 35_000 }
const marker = (): string => `left${process.pid}x${Math.random().toString(36).slice(2)}`

interface Cell {
  run(source: ReturnType<typeof python>, more?: object): Promise<Ended & { slot: unknown }>
  look(): Promise<{ look: Look; chance: unknown[]; slot: unknown }>
}

/** A sandbox that the executions of one session share, or those of one tenant with `reuse: 'tenant'`. */
function cellOf(target: Target, scope: Scope | 'tenant', key = marker()): Cell {
  const place =
    scope === 'tenant'
      ? { reuse: 'tenant' as const, tenant_id: key }
      : { session: { key, scope, idle_ms: 60_000 } }
  const run: Cell['run'] = async (source, more = {}) => {
    const attack = target.start({ ...place, program: source, limits, ...more })
    const [ended, ref] = await Promise.all([attack.gone, attack.began])
    return { ...ended, slot: ref.handle['slot'] }
  }
  return {
    run,
    async look() {
      const ended = await run(program('look_around'))
      expect(ended.outcome, ended.stderr).toMatchObject({ ending: 'ok' })
      const { chance, ...look } = JSON.parse(ended.stdout) as Look & { chance: unknown[] }
      return { look, chance, slot: ended.slot }
    },
  }
}

const leaving = (name: string, what: 'places' | 'processes'): ReturnType<typeof python> =>
  ({ ...program('leave_behind'), argv: [name, what] }) as ReturnType<typeof python>

const looks = new Map<string, Promise<Look>>()
/**
 * What the same program sees in a fresh sandbox. Asked once per target and scope, because paths and counts
 * never change.
 */
function fresh(target: Target, scope: Scope | 'tenant'): Promise<Look> {
  const key = `${target.name} ${scope}`
  const found =
    looks.get(key) ??
    cellOf(target, scope)
      .look()
      .then(({ look }) => look)
  looks.set(key, found)
  return found
}

/** The shortest time that an agent gives any part of a wipe (SETTLE_S; WIPE_S is twice that). */
const WIPING_MS = 1000

/**
 * Repeats an execution and a look after it until its cell was wiped. If a wipe takes longer than the agent
 * allows, as on a busy host, the cell is destroyed. That is as clean, but proves nothing about wiping. The
 * test fails if a cell is destroyed sooner, or if five are destroyed.
 */
async function untilWiped(wasWiped: () => Promise<boolean>): Promise<void> {
  for (let tries = 1; ; tries++) {
    const beganMs = performance.now()
    if (await wasWiped()) return
    expect(performance.now() - beganMs, 'milliseconds until a cell was thrown away').toBeGreaterThan(
      WIPING_MS,
    )
    expect(tries, 'cells that were thrown away').toBeLessThan(5)
  }
}

/** Attacks after which a sandbox may be lost, but never dirty. */
const ATTACKS: Record<string, ReturnType<typeof python>> = {
  'kills everything that it may': bash('kill -KILL -1; kill -KILL $$'),
  'stops everything that it may': python(`
import os, signal
for pid in [-1, 1, os.getppid()] + [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]:
    for number in (signal.SIGSTOP, signal.SIGTSTP):
        try: os.kill(pid, number)
        except OSError: pass`),
  'sends every signal to every process': python(`
import os
for number in [n for n in range(1, 65) if n not in (9, 19)]:
    for pid in [1, os.getppid()] + [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]:
        try: os.kill(pid, number)
        except OSError: pass`),
  'traces and writes into whatever waits': python(`
import ctypes, os
libc = ctypes.CDLL(None)
for pid in {1, os.getppid(), *(int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid())}:
    libc.ptrace(16, pid, 0, 0)
    libc.ptrace(0x4206, pid, 0, 0)
    for name in ('mem', 'fd/0', 'fd/1', 'fd/3', 'cwd/x', 'root/tmp/x', 'task/%d/mem' % pid):
        try:
            fd = os.open('/proc/%d/%s' % (pid, name), os.O_RDWR | os.O_CREAT)
            os.pwrite(fd, b'x' * 64, 0)
            if os.readlink('/proc/self/fd/%d' % fd) != '/dev/null': print('wrote', name)
        except OSError: pass
    try: libc.syscall(438, os.pidfd_open(pid), 0, 0)
    except OSError: pass`),
  'closes every descriptor': python(
    'import os\nfor fd in range(4096):\n  try: os.close(fd)\n  except OSError: pass\nos._exit(0)',
  ),
  'fills disk and shared memory': python(`
import os
for folder in ('/tmp', '/dev/shm', '.'):
    try:
        for n in range(64): open('%s/full-%d' % (folder, n), 'wb').write(b'x' * (1 << 20))
    except OSError: pass
    try:
        for n in range(20000): os.close(os.open('%s/empty-%d' % (folder, n), os.O_CREAT))
    except OSError: pass`),
  'takes all memory': python('held = []\nwhile True: held.append(bytearray(b"x") * (4 << 20))'),
  'takes every process id and stays': python(`
import os, time
try:
    while True:
        if os.fork() == 0:
            os.setsid(); time.sleep(600)
except OSError: print('full', flush=True)
os._exit(0)`),
  'moves its directory away and puts a link in its place': bash(
    'here=$PWD; cd /; mv "$here" /tmp/moved && ln -s / "$here"; mkdir -p /tmp/moved/x; true',
  ),
  'removes its directory': bash('here=$PWD; cd /; rm -rf "$here"; echo x > "$here" 2>/dev/null; true'),
}

await onTargets(
  (target) => {
    for (const scope of ['none', 'tenant'] as const)
      test(`the next execution finds nothing that an execution left (${scope})`, async () => {
        const expected = await fresh(target, scope)
        await untilWiped(async () => {
          const cell = cellOf(target, scope)
          const name = marker()
          const first = await cell.run(leaving(name, 'places'))
          expect(first.outcome, first.stderr).toMatchObject({ ending: 'ok' })
          // The check means something only if the program left a lot.
          expect((JSON.parse(first.stdout) as string[]).length, first.stdout).toBeGreaterThan(12)
          expect(processesNamed(name)).toEqual([])
          const { look, slot } = await cell.look()
          expect(look).toEqual(expected)
          return slot === first.slot
        })
      })

    test('a program that changes every process that it can leaves the cell unchanged', async () => {
      const expected = await fresh(target, 'none')
      const cell = cellOf(target, 'none')
      const name = marker()
      const first = await cell.run(leaving(name, 'processes'))
      expect(first.outcome, first.stderr).toMatchObject({ ending: 'ok' })
      expect(processesNamed(name)).toEqual([])
      expect((await cell.look()).look).toEqual(expected)
      expect((await cell.look()).look).toEqual(expected)
    })

    test('a session keeps the files of its directory and nothing else', async () => {
      const { work: _empty, ...expected } = await fresh(target, 'files')
      await untilWiped(async () => {
        const cell = cellOf(target, 'files')
        const first = await cell.run(leaving(marker(), 'places'))
        expect(first.outcome, first.stderr).toMatchObject({ ending: 'ok' })
        const { look, slot } = await cell.look()
        if (slot !== first.slot) return false
        const { work, ...rest } = look
        expect(Object.keys(work as object)).toEqual(expect.arrayContaining([expect.stringMatching(/one$/)]))
        // Do not compare what belongs to the session: disk usage by its files, and the flags and times of its
        // directory.
        for (const shared of ['used /tmp', 'work flags', 'times'])
          for (const place of [rest, expected]) delete place[shared]
        expect(rest).toEqual(expected)
        return true
      })
    })

    test('a session that was destroyed starts fresh, and the result says so', async () => {
      const cell = cellOf(target, 'files')
      const first = await cell.run(python('open("mine", "w").write("x")'))
      await cell.run(
        bash('here=$PWD; cd /; rm -rf "$here"; mkdir "$here"; mkdir /tmp/other; mv -T /tmp/other "$here"'),
      )
      const next = await cell.run(bash('ls'))
      expect(next.outcome.session?.id).not.toBe(first.outcome.session?.id)
      expect(next.stdout).toBe('main.sh\n')
    })

    for (const [what, attack] of Object.entries(ATTACKS))
      test(`a program that ${what} leaves a clean cell or none`, async () => {
        const expected = await fresh(target, 'none')
        const cell = cellOf(target, 'none')
        await cell.look()
        const ended = await cell.run(attack, {
          limits: { ...limits, hard_timeout_ms: 12_000, soft_timeout_ms: 10_000 },
        })
        expect(ended.stdout).not.toContain('wrote')
        expect((await cell.look()).look).toEqual(expected)
      })

    test('a fork bomb that is ended by the deadline leaves a clean cell or none', async () => {
      const expected = await fresh(target, 'none')
      const cell = cellOf(target, 'none')
      const { outcome } = await cell.run(program('fork_bomb'), {
        // No earlier soft deadline, because it would end a bomb that has not started yet.
        limits: { ...limits, soft_timeout_ms: 1200, hard_timeout_ms: 1200 },
      })
      // On gVisor it is the sandbox's own kernel that runs out of memory.
      expect(outcome.ending).toMatch(target.kernel === 'gvisor' ? /^(hard_timeout|oom)$/ : /^hard_timeout$/)
      expect((await cell.look()).look).toEqual(expected)
    })

    test('a cell is never given to another tenant or another session', async () => {
      const name = marker()
      const [mallory, alice] = [cellOf(target, 'tenant', `m${name}`), cellOf(target, 'tenant', `a${name}`)]
      await mallory.run(python(`open('/tmp/${name}', 'w').close(); open('mine', 'w').write('${name}')`))
      expect((await alice.look()).look).toEqual(await fresh(target, 'tenant'))
      // The same key of another tenant is another session.
      const session = { key: name, scope: 'files' as const, idle_ms: 60_000 }
      await target.run({ session, program: bash('echo secret > mine') })
      const other = await target.run({ session, tenant_id: 'alice', program: bash('ls -A; cat mine') })
      expect(other.stdout.replace('main.sh\n', '')).toBe('')
    })

    test('random numbers differ between executions that share a sandbox', async () => {
      const cell = cellOf(target, 'none')
      const runs = []
      for (let turn = 0; turn < 4; turn++) runs.push((await cell.look()).chance)
      // Only these four must differ: random, uuid, urandom, and numpy's if it is installed. Hash seeds and
      // addresses may be shared (README).
      for (const index of [0, 1, 2, 3]) {
        const values = runs.map((chance) => chance[index])
        if (values[0] !== '') expect(new Set(values).size, JSON.stringify(values)).toBe(runs.length)
      }
    })

    test('children and threads of a kept interpreter do not run between two executions', async () => {
      if (target.capabilities?.sessions.includes('interpreter') !== true) return
      const cell = cellOf(target, 'interpreter')
      const name = marker()
      const first = await cell.run(
        python(`
import os, subprocess, threading, time
x = 41
ticks = []
def tick():
    while True:
        ticks.append(time.monotonic()); time.sleep(0.005)
threading.Thread(target=tick, daemon=True).start()
for folder in ('/tmp', '/dev/shm'):
    open(folder + '/${name}', 'w').close()
subprocess.Popen(['${name}', '600'], executable='/bin/sleep', start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execv('/bin/sleep', ['${name}', '600'])
    os._exit(0)
print('left')`),
      )
      expect(first.stdout, first.stderr).toBe('left\n')
      expect(processesNamed(name)).toEqual([])
      const second = await cell.run(
        python(`
import os
print(x + 1, [f for f in ('/tmp', '/dev/shm') if os.path.exists(f + '/${name}')], [p for p in os.listdir('/proc') if p.isdigit() and open('/proc/%s/cmdline' % p).read().startswith('${name}')])`),
      )
      if (second.outcome.session?.id === first.outcome.session?.id) expect(second.stdout).toBe('42 [] []\n')
      else expect(second.stderr).toContain("name 'x' is not defined")
      expect(processesNamed(name)).toEqual([])
    })

    test('between two executions a cell has only sleeping processes of the agent', async () => {
      if (target.kernel !== 'host') return
      const cell = cellOf(target, 'files')
      const attack = target.start({
        session: { key: marker(), scope: 'files', idle_ms: 60_000 },
        program: python('import time; print("up", flush=True); time.sleep(60)'),
      })
      const ref = await attack.began
      await attack.said('up')
      const agent = agentOf(target, ref)
      attack.stop('cancelled')
      await attack.gone
      // The cancelled execution may have destroyed the cell. If not, the cell waits with its agent, a fork
      // server and one fork.
      await eventually(() => {
        if (!/^[SRD]/.test(statusOf(agent, 'State'))) return
        const waiting = processesOf(target, ref)
        expect(waiting.length).toBeLessThanOrEqual(3)
        for (const pid of waiting) expect(statusOf(pid, 'State')).toMatch(/^[SRD]/)
      })
      await cell.look()
    })
  },
  {
    daily: ({ name }) => name === 'docker warm',
    where: (kind) => isWarm(kind) || ['gvisor', 'bwrap as a user', 'self-jail as root'].includes(kind.name),
  },
)
