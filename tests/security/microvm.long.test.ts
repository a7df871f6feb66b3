/**
 * Attacks by a whole virtual machine whose program became root in it. The program controls its kernel, its
 * devices and both of its channels. The worker must stay healthy, the execution must have the expected
 * ending, and no machine may be left.
 */
import { createHash } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { makeHostileImage } from './hostile-guest.ts'
import { memoryOf, peakMemoryOf, resetPeakMemory } from './host.ts'
import { onTargets, program } from './on-targets.ts'
import { kind, python, type Ended, type Target } from './target.ts'

const MiB = 1024 * 1024
/**
 * Long enough that an emulated machine on a busy host gets the attack and answers. Only attacks that do not
 * end the execution themselves run until then.
 */
const DEADLINES = { soft_timeout_ms: 20_000, hard_timeout_ms: 21_000 }
const STAYS_S = '600'
const ATTACK_MS = 240_000
/** What a machine may make its worker hold: frames, lines and output that are on their way. */
const GROWTH_MAX = 96 * MiB

const image = await makeHostileImage()
afterAll(() => image?.[Symbol.dispose]())
const digestsOf = (paths: readonly string[]): string[] =>
  paths.map((path) => createHash('sha256').update(readFileSync(path)).digest('hex'))
const templateFiles = ({ runtimeDir }: Target): string[] => {
  const top = join(runtimeDir, 'microvm/templates')
  return readdirSync(top).flatMap((name) => ['state', 'memory'].map((file) => join(top, name, file)))
}

/** Python for the root of the machine. It has `control`, `port` (of the agent) and `peer` (the program). */
const BEGIN = `
import random, signal
def agent():
    with open(JOB + "/cgroup.procs") as pids: return min(map(int, pids))
def frame(kind, payload): os.write(port, kind + struct.pack("<I", len(payload)) + payload)
def answered(): peer.sendall(b"done"); peer.close()
random.seed(5)
`
const sysrq = (letter: string): string => `write("/proc/sysrq-trigger", "${letter}")`
const forEver = (work: string): string => `answered()\nwhile True:\n    ${work}`

const LOST = { ending: 'sandbox_lost' }
const BROKEN = { ending: 'sandbox_lost', reason: 'protocol_violation' }
const LATE = { ending: 'hard_timeout' }
/** The agent goes on, and interrupts the program, which waits. */
const SOFT = { ending: 'soft_timeout' }
/** The ending depends on which process the guest's kernel kills first, or on how a device reacts. */
const SOMEHOW = { ending: expect.stringMatching(/^(oom|sandbox_lost|(soft|hard)_timeout)$/) as string }

/** What root does, and how the execution ends. */
const ENDS: [what: string, source: string, ending: object][] = [
  ['crashes its kernel', sysrq('c'), LOST],
  ['restarts at once', sysrq('b'), LOST],
  ['switches itself off', 'libc.reboot(ctypes.c_int(0x4321FEDC))', LOST],
  ['kills the agent', 'os.kill(agent(), signal.SIGKILL)', LOST],
  ['kills its first process', 'write("/proc/sysrq-trigger", "i"); os.kill(1, signal.SIGSEGV)', LOST],
  ['stops the agent', 'os.kill(agent(), signal.SIGSTOP)', LATE],
  ['freezes the agent and its programs', 'write(JOB + "/cgroup.freeze", "1")', LATE],
  ['forks without end outside of all limits', forEver('os.fork()'), LATE],
  [
    'takes all memory outside of all limits',
    `write("/proc/self/oom_score_adj", "-1000"); held = []\n${forEver('held.append(b"x" * (4 << 20))')}`,
    SOMEHOW,
  ],
  [
    'computes with the highest priority',
    `os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))\n${forEver('pass')}`,
    LATE,
  ],
  ['sends random bytes for frames', forEver('os.write(port, random.randbytes(4096))'), BROKEN],
  ['announces a frame of 4 GiB', 'os.write(port, b"O" + b"\\xff" * 4)', BROKEN],
  ['sends a frame of no known type', 'frame(b"?", b"abc")', BROKEN],
  ['says a second time that it is ready', 'frame(b"R", b"{}")', BROKEN],
  ['ends the run with nonsense', 'frame(b"X", b"{}")', BROKEN],
  [
    'opens connections without a network',
    forEver('frame(b"N", struct.pack("<I", random.getrandbits(32)))'),
    SOMEHOW,
  ],
  [
    'stops in the middle of a frame',
    'os.kill(agent(), signal.SIGSTOP); os.write(port, b"O\\x09\\0\\0\\0abc")',
    LATE,
  ],
  ['floods the control port with one line', forEver('os.write(control, b"x" * 65536)'), LOST],
  ['floods the control port with words', forEver('say(control, {"nonce": "x"})'), LOST],
  ['sends random bytes to the control port', forEver('os.write(control, random.randbytes(512))'), LOST],
  [
    'floods its console',
    `out = os.open("/dev/ttyS0", os.O_WRONLY)\n${forEver('os.write(out, b"x" * 4096)')}`,
    // Whether the guest still answers the soft stop depends on how fast the host reads.
    SOMEHOW,
  ],
  [
    'writes to its disk and to every other device',
    `for name in [n for n in os.listdir("/dev") if not n.startswith(("vport", "tty", "console"))]:
    try:
        fd = os.open("/dev/" + name, os.O_WRONLY | os.O_NONBLOCK)
        for _ in range(16): os.pwrite(fd, random.randbytes(4096), 4096 * random.randrange(1000))
        os.fsync(fd)
    except OSError: pass
answered()`,
    SOFT,
  ],
  [
    'writes random values to the ports of its devices',
    `import mmap
libc.iopl(3)
page = mmap.mmap(-1, 4096, prot=7)
# mov edx, edi; mov eax, esi; out dx, al; ret
page.write(b"\\x89\\xfa\\x89\\xf0\\xee\\xc3")
out = ctypes.CFUNCTYPE(None, ctypes.c_uint, ctypes.c_uint)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
${forEver('out(random.randrange(0x1000), random.randrange(256))')}`,
    SOMEHOW,
  ],
]

await onTargets(
  (target) => {
    let honest: string[] = []
    const shared = (): string[] => digestsOf([...(image?.files ?? []), ...templateFiles(target)])
    const asked = (source: string): Promise<Ended> =>
      target.run({
        program: { ...program('ask_root'), argv: [BEGIN + source, STAYS_S] } as ReturnType<typeof program>,
        limits: DEADLINES,
      })
    const expectHealthy = async (): Promise<void> => {
      const { outcome, stdout } = await target.run({ program: python('print(6 * 7)'), limits: DEADLINES })
      expect({ ending: outcome.ending, why: outcome.failureReason, stdout }).toMatchObject({
        ending: 'ok',
        stdout: '42\n',
      })
    }

    test(
      'an honest program runs in the hostile machine, whose root answers',
      { timeout: ATTACK_MS },
      async () => {
        await expectHealthy()
        honest = shared()
        expect((await asked('assert os.getuid() == 0; os.kill(agent(), 0)')).stdout).toBe('asked\ndone\n')
      },
    )

    for (const [what, source, ending] of ENDS)
      test(
        `a machine that ${what} hurts neither its worker nor the next machine`,
        { timeout: ATTACK_MS },
        async () => {
          resetPeakMemory(target.pid)
          const before = memoryOf(target.pid)
          const { outcome, stdout } = await asked(source)
          expect(stdout).toMatch(/^asked/)
          expect(outcome, `${outcome.failureReason} ${stdout}`).toMatchObject(ending)
          expect(peakMemoryOf(target.pid) - before).toBeLessThan(GROWTH_MAX)
          await expectHealthy()
        },
      )

    test('none of them has changed a file that machines share', { timeout: ATTACK_MS }, () => {
      expect(shared()).toEqual(honest)
    })
  },
  {
    kinds: [
      kind(
        'hostile machine',
        'microvm',
        { image_dir: image?.folder },
        { needs: ['microvm'], kernel: 'guest' },
      ),
    ],
  },
)
