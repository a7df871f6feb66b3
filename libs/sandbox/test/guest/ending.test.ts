/** A Python program ends like in a bare run: handlers, finalisers, threads and exit code. */
import type { Program } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openLab, sharing, type Lab, type Way } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

const python = (source: string): Program & { type: 'script' } => ({
  type: 'script',
  language: 'python',
  source,
})

interface Ending {
  name: string
  source: string
  /** A bare run's output and exit code, so that two empty results cannot count as equal. */
  stdout: string
  exitCode: number
}

const ENDINGS: Ending[] = [
  {
    name: 'an atexit handler',
    source: 'import atexit\natexit.register(print, "handler")\nprint("main")',
    stdout: 'main\nhandler\n',
    exitCode: 0,
  },
  {
    name: '`__del__` of a global of the module',
    source: 'class A:\n    def __del__(self): print("deleted")\na = A()\nprint("main")',
    stdout: 'main\ndeleted\n',
    exitCode: 0,
  },
  {
    name: 'a thread that outlives main and is no daemon',
    source:
      'import threading\ndef late():\n    threading.main_thread().join()\n    print("thread")\nthreading.Thread(target=late).start()\nprint("main")',
    stdout: 'main\nthread\n',
    exitCode: 0,
  },
  {
    name: 'weakref.finalize',
    source: 'import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, "finalized")\nprint("main")',
    stdout: 'main\nfinalized\n',
    exitCode: 0,
  },
  {
    name: 'a flush of stdout that fails at the exit',
    source: 'import os\nos.dup2(os.open("/dev/full", os.O_WRONLY), 1)\nprint("lost")',
    stdout: '',
    exitCode: 120,
  },
]

const WAYS: Way[] = ['alone', 'cell', 'shared']

for (const way of WAYS)
  (way === 'shared' ? sharing : needs()).describe(`an interpreter by way of: ${way}`, () => {
    test.each(ENDINGS.map((ending) => [ending.name, ending] as const))(
      'ends like a bare run with %s',
      async (_name, { source, stdout, exitCode }) => {
        const work = lab.folder()
        const bare = await lab.bare(python(source), { work })
        expect(bare).toMatchObject({ stdout, exitCode, signal: null })
        const ours = await lab.once(python(source), { work, way })
        expect({
          exitCode: ours.exit.exitCode,
          signal: ours.exit.signal,
          stdout: ours.stdout,
          stderr: ours.stderr,
        }).toEqual(bare)
      },
    )
  })

/**
 * Only some kernels, such as gVisor's, let a program call PTRACE_TRACEME. The agent of this test runs without
 * a seccomp filter, so the call succeeds.
 */
const TRACED =
  'import ctypes, os, signal, subprocess\nprint(ctypes.CDLL(None).ptrace(0, 0, 0, 0), flush=True)\n'
test.each([
  [
    'signals come',
    `signal.signal(signal.SIGUSR1, lambda *_: print("told", flush=True))
os.kill(os.getpid(), signal.SIGUSR1)
subprocess.run(["true"])
raise SystemExit(3)`,
    { stdout: '0\ntold\n', exitCode: 3, signal: null },
  ],
  [
    'it runs another program',
    'os.execv("/bin/sh", ["sh", "-c", "echo another; exit 3"])',
    { stdout: '0\nanother\n', exitCode: 3, signal: null },
  ],
  ['a signal ends it', 'os.kill(os.getpid(), 10)', { stdout: '0\n', exitCode: null, signal: 'SIGUSR1' }],
])('a program that made the agent its tracer ends as usual when %s', async (_when, source, expected) => {
  const { exit, stdout } = await lab.once(python(TRACED + source), { work: lab.folder(), way: 'alone' })
  expect({ stdout, exitCode: exit.exitCode, signal: exit.signal }).toEqual(expected)
})
