/** Programs that take memory, processes, output, disk and inodes without end. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { memoryOf, peakMemoryOf, processesOf, resetPeakMemory } from './host.ts'
import { eventually, onTargets, program } from './on-targets.ts'
import { bash, isCold, python, type Ended, type Target } from './target.ts'

const MiB = 1024 * 1024
/**
 * How late a deadline may be on a busy machine. On a quiet one it is at most 250 ms late. Without a deadline
 * the programs run for minutes.
 */
const LATE_MS = 20_000

/**
 * Runs a program that prints `up` once it ignores signals, up to its hard deadline. If the soft deadline
 * interrupted it before `up`, as on a busy host, runs it again with twice the time.
 */
async function endedByDeadline(
  target: Target,
  deaf: Parameters<Target['run']>[0],
  [softMs, hardMs]: [number, number],
): Promise<Ended & { lateMs: number }> {
  const limits = { ...deaf.limits, soft_timeout_ms: softMs, hard_timeout_ms: hardMs }
  const ended = await target.run({ ...deaf, limits })
  if (ended.stdout === '' && hardMs < LATE_MS)
    return await endedByDeadline(target, deaf, [2 * softMs, 2 * hardMs])
  expect(ended.stdout).toBe('up\n')
  return { ...ended, lateMs: ended.ms - hardMs }
}

/** Programs that are idle themselves while a child computes. The key says what becomes of that child. */
const COMPUTES = {
  lives: 'import os\nif os.fork() == 0:\n  while True: pass\nos.wait()',
  'is an orphan':
    'import os, time\nif os.fork() == 0:\n  if os.fork() == 0:\n    while True: pass\n  os._exit(0)\nos.wait()\ntime.sleep(100)',
  'has ended':
    'import os, time\nwhile True:\n  if os.fork() == 0:\n    while time.process_time() < 0.05: pass\n    os._exit(0)\n  os.wait()',
}

await onTargets(
  (target) => {
    test('a program that allocates endlessly and swallows MemoryError ends as oom', async () => {
      const { outcome } = await target.run({
        program: python(
          'held = []\nwhile True:\n  try: held.append(bytearray(b"x") * (4 << 20))\n  except MemoryError: pass',
        ),
        limits: { memory_mib: 96 },
      })
      expect(outcome).toMatchObject({ ending: 'oom' })
    })

    test('a fork bomb of daemons that ignore signals ends at the hard deadline', async () => {
      const bomb = { program: program('fork_bomb'), limits: { pids: 24 } }
      const { outcome, lateMs } = await endedByDeadline(target, bomb, [1000, 1500])
      expect(outcome.ending).toBe('hard_timeout')
      console.log(`${target.name}: a fork bomb was answered ${Math.round(lateMs)} ms after its deadline`)
      expect(lateMs).toBeLessThan(LATE_MS)
    })

    test('a fork bomb stays within its process limit, and can be cancelled', async () => {
      const attack = target.start({ program: program('fork_bomb'), limits: { pids: 24 } })
      const ref = await attack.began
      await attack.said('up')
      const count = (): number => processesOf(target, ref).length
      // Without namespaces, the limit also counts the user's other processes and the worker's threads. The
      // bomb may then get no process at all.
      if (target.kernel === 'host' && target.section['namespaces'] !== false)
        await eventually(() => expect(count()).toBeGreaterThan(24 / 2))
      // Three more, because the agent and the waiting interpreter count too. If the sandbox has its own
      // kernel, the host sees only the threads of that kernel.
      if (target.kernel === 'host')
        for (let looks = 0; looks < 10; looks++) expect(count()).toBeLessThanOrEqual(24 + 3)
      attack.stop('cancelled')
      expect((await attack.gone).outcome.ending).toBe('cancelled')
    })

    const whereCounted = target.capabilities?.measures.includes('cpu_ms') === true ? test : () => undefined
    for (const [which, source] of Object.entries(COMPUTES))
      whereCounted(`CPU time of a child that ${which} counts for the limit`, async () => {
        const { outcome } = await target.run({
          program: python(source),
          limits: { cpu_time_ms: 200, soft_timeout_ms: 60_000, hard_timeout_ms: 70_000 },
        })
        expect(outcome).toMatchObject({ ending: 'hard_timeout', reason: 'cpu_time_limit' })
      })

    // What is emulated prints a megabyte a second on a busy host.
    const MiBs = target.kernel === 'guest' ? 64 : 1024
    test(`${MiBs} MiB each on stdout and stderr without a newline cost the worker little`, async () => {
      resetPeakMemory(target.pid)
      const before = memoryOf(target.pid)
      const { outcome } = await target.run({
        program: python(`
import os
block = b'x' * (1 << 16)
if os.fork() == 0:
    for _ in range(${MiBs * 16}): os.write(2, block)
    os._exit(0)
for _ in range(${MiBs * 16}): os.write(1, block)
os.wait()`),
        limits: { soft_timeout_ms: 170_000, hard_timeout_ms: 175_000 },
      })
      expect(outcome).toMatchObject({
        ending: 'ok',
        stdout: { bytes: MiBs * MiB, truncated: true },
        stderr: { bytes: MiBs * MiB, truncated: true },
      })
      const grown = peakMemoryOf(target.pid) - before
      console.log(
        `${target.name}: ${2 * MiBs} MiB of output grew the worker by ${Math.round(grown / MiB)} MiB at most`,
      )
      expect(grown).toBeLessThan(Math.min(160, MiBs) * MiB)
    })

    test('characters that are split over writes arrive whole, and invalid bytes are replaced', async () => {
      const { stdout } = await target.run({
        program: python(`
import os, time
for byte in '€😀é'.encode():
    os.write(1, bytes([byte])); time.sleep(0.01)
os.write(1, b'\\xff\\xc3|\\xe2\\x82')`),
      })
      expect(stdout).toBe('€😀é\uFFFD\uFFFD|\uFFFD')
    })

    test('nothing keeps running when a program stops itself and its process group', async () => {
      const stopped = { program: bash('trap "" INT TERM; sleep 600 & echo up; kill -STOP 0') }
      const { outcome, lateMs } = await endedByDeadline(target, stopped, [300, 800])
      expect(outcome.ending).toBe('hard_timeout')
      expect(lateMs).toBeLessThan(LATE_MS)
    })

    // A sandbox with its own kernel uses no contexts of the host, so there is nothing to test.
    const onHostKernel = target.kernel === 'host' ? test : () => undefined
    onHostKernel('a program cannot use up the asynchronous I/O contexts of the host', async () => {
      const free = (): number => Number(readFileSync('/proc/sys/fs/aio-nr', 'utf8'))
      const attack = target.start({
        program: python(`
import ctypes, platform, time
number = 0 if platform.machine() == 'aarch64' else 206
libc = ctypes.CDLL(None)
print('took', libc.syscall(number, 60000, ctypes.byref(ctypes.c_ulong(0))), flush=True)
time.sleep(60)`),
      })
      await attack.said('took')
      expect(free()).toBeLessThan(60_000)
      attack.stop('cancelled')
      expect((await attack.gone).stdout).toBe('took -1\n')
    })
  },
  { where: isCold, daily: ({ name }) => ['docker', 'bwrap as root'].includes(name) },
)

await onTargets(
  (target) => {
    test('the number of empty files is bounded', async () => {
      const { outcome, stdout } = await target.run({
        program: program('inodes'),
        limits: { memory_mib: 96, soft_timeout_ms: 30_000, hard_timeout_ms: 32_000 },
      })
      if (outcome.ending !== 'oom') expect(Number(stdout)).toBeLessThan(20_000)
    })

    test('all writes together stay within the limit, and none of them reach the host', async () => {
      const written = await target.ask<Record<string, number>>(program('fill'), {
        limits: { disk_mib: 24, memory_mib: 256, soft_timeout_ms: 50_000, hard_timeout_ms: 60_000 },
      })
      const total = Object.values(written).reduce((sum, bytes) => sum + bytes, 0)
      expect(total, JSON.stringify(written)).toBeGreaterThan(16 * MiB)
      // The disk limit, and 16 MiB of shared memory.
      expect(total, JSON.stringify(written)).toBeLessThanOrEqual((24 + 16) * MiB)
    })
  },
  // Without namespaces the work directory is a folder of the host, and the backend does not declare `disk`.
  {
    where: (kind) => isCold(kind) && kind.section['namespaces'] !== false,
    daily: ({ name }) => ['docker', 'bwrap as root'].includes(name),
  },
)
