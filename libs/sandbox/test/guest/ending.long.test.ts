/**
 * How Python programs end: without CPython's finalisation where nobody can tell, and as a bare run wherever one could. Each
 * case does something at or after its last statement that a shorter end could lose.
 */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Program, ProgramFile } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openLab, sharing, stop, type Agent, type Lab, type Ran, type Way } from './start-agent.ts'

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
const file = (path: string, text: string): ProgramFile => ({ path, bytes: Buffer.from(text) })

/** Prints when the interpreter is taken apart; the word for such hooks is put together, so that no check knows of it. */
const WITNESS = `import os, sys
write = os.write
def hook(event, _):
    if "InterpreterState_Clear" in event: write(1, b"taken apart\\n")
getattr(sys, "add" + "au" + "dithook")(hook)
`

/** Says what a trace or profile function sees, without a call that it would see itself. */
const WATCHER = `import os, sys
write = os.write
def tell(frame, event, arg):
    write(1, ("%s %s %s\\n" % (event, os.path.basename(frame.f_code.co_filename), frame.f_code.co_name)).encode())
    return tell
`

interface Case {
  name: string
  source: string
  files?: ProgramFile[]
}

const CASES: Case[] = [
  {
    name: 'a finaliser that prints',
    source: 'class A:\n    def __del__(self): print("late")\na = A()\nprint(1)',
  },
  {
    name: 'a finaliser in a cycle',
    source: 'class A:\n    def __del__(self): print("late")\na = A()\na.me = a\ndel a\nprint(1)',
  },
  {
    name: 'a finaliser that is put together and holds something',
    source: 'A = type("A", (), {"__d" + "el__": lambda self: print("late")})\na = A()\na.x = 1\nprint(1)',
  },
  {
    name: 'a finaliser of a provided module',
    source: 'import mine\nprint(1)',
    files: [file('mine.py', 'class A:\n    def __del__(self): print("late")\na = A()\n')],
  },
  {
    name: 'a provided module with the name of a library',
    source: 'import json\nprint(1)',
    files: [file('json.py', 'class A:\n    def __del__(self): print("late")\na = A()\n')],
  },
  {
    name: 'a program in another file',
    source: 'exec(open("more").read())\nprint(1)',
    files: [file('more', 'class A:\n    def __del__(self): print("late")\na = A()\n')],
  },
  {
    name: 'a generator that is not at its end',
    source:
      'def g():\n    try:\n        yield 1\n    finally:\n        print("late")\nit = g()\nprint(next(it))',
  },
  {
    name: 'a coroutine that never ran',
    source: 'async def f(): pass\nx = f()\nprint(1)',
  },
  {
    name: 'a context manager that is left open',
    source:
      'import contextlib\n@contextlib.contextmanager\ndef c():\n    try:\n        yield 1\n    finally:\n        print("late")\nx = c()\nx.__enter__()\nprint(1)',
  },
  {
    name: 'a reference with a callback',
    source: 'import weakref\nclass A: pass\na = A()\nr = weakref.ref(a, lambda _: print("late"))\nprint(1)',
  },
  { name: 'a second writer on stdout', source: 'f = open(1, "w", closefd=False)\nf.write("late")\nprint(1)' },
  {
    name: 'a wrapper around stdout',
    source: 'import io, sys\nf = io.TextIOWrapper(sys.stdout.buffer)\nf.write("late\\n")\nprint(1)',
  },
  {
    name: 'another stdout',
    source:
      'import sys\nclass Loud:\n    def write(self, text): sys.__stdout__.write(text.upper())\n    def flush(self): sys.__stdout__.write("flushed\\n")\nsys.stdout = Loud()\nprint("a")',
  },
  { name: 'stdout taken away', source: 'import sys\nsys.stdout = None\nprint("a")\nsys.stderr.write("b")' },
  { name: 'a closed stdout', source: 'import sys\nprint("a")\nsys.stdout.close()' },
  { name: 'a closed descriptor under stdout', source: 'import os\nprint("a")\nos.close(1)' },
  { name: 'closed descriptors, and a value', source: 'import os\nprint("a")\nos.close(1)\nos.close(2)\n3' },
  { name: 'a detached stderr', source: 'import sys\nraw = sys.stderr.detach()\nraw.write(b"x")\nprint(1)' },
  {
    name: 'stdout on a file',
    source: 'import os\nfd = os.open("o", os.O_CREAT | os.O_WRONLY)\nos.dup2(fd, 1)\nprint(1)',
  },
  {
    name: 'text on stderr without a line end',
    source: 'import sys\nsys.stderr.write("no end")\nprint("a", end="")',
  },
  {
    name: 'a lone surrogate that is still in the buffer',
    source: 'import sys\nsys.stdout.write("a\\udc80")',
  },
  { name: 'an atexit function', source: 'import atexit\natexit.register(print, "bye")\nprint(1)' },
  {
    name: 'an atexit function that fails',
    source: 'import atexit\natexit.register(lambda: 1 / 0)\nprint(1)',
  },
  {
    name: 'an atexit function that opens a file and leaves it',
    source:
      'import atexit\ndef f():\n    global x\n    x = open(1, "w", closefd=False)\n    x.write("late")\natexit.register(f)\nprint(1)',
  },
  {
    name: 'an atexit function that ends the process',
    source: 'import atexit, os\natexit.register(lambda: os._exit(7))\nprint(1, flush=True)',
  },
  { name: 'forgetting all atexit functions', source: 'import atexit\natexit._clear()\nprint(1)' },
  {
    name: 'a thread that is waited for',
    source:
      'import threading, time\ne = threading.Event()\nthreading.Thread(target=lambda: (e.wait(), print("late"))).start()\nprint(1)\ne.set()',
  },
  {
    name: 'a daemon thread that is not',
    source:
      'import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint(1)',
  },
  {
    name: 'a pool of threads',
    source:
      'from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(2)\nf = p.submit(print, "late")\nprint(f.result())',
  },
  {
    name: 'a log with a handler that keeps lines',
    source:
      'import logging, logging.handlers, sys\nt = logging.StreamHandler(sys.stdout)\nlogging.getLogger().addHandler(logging.handlers.MemoryHandler(100, target=t))\nlogging.warning("kept")\nprint(1)',
  },
  {
    name: 'a temporary directory',
    source: 'import tempfile\nt = tempfile.TemporaryDirectory(dir=".")\nprint(1)',
  },
  {
    name: 'a child that was not waited for',
    source: 'import subprocess\np = subprocess.Popen(["true"])\nprint(1)',
  },
  {
    name: 'an open socket, shown',
    source: 'import socket, warnings\nwarnings.simplefilter("always")\ns = socket.socket()\nprint(1)',
  },
  {
    name: 'an open file, shown',
    source: 'import warnings\nwarnings.simplefilter("always")\nf = open("main.py")\nprint(1)',
  },
  {
    name: 'bytes that libc holds',
    source: 'import ctypes\nctypes.CDLL(None).printf(b"late")\nprint(1, flush=True)',
  },
  { name: 'a trace function', source: 'import sys\nsys.settrace(lambda *a: None)\nprint(1)' },
  ...['x = 1', 'len("ab")', 'print(1)', '1 / 0'].flatMap((last) => [
    {
      name: `a trace function that tells all it sees, and ${last}`,
      source: `${WATCHER}sys.settrace(tell)\n${last}`,
    },
    {
      name: `a profile function that tells all it sees, and ${last}`,
      source: `${WATCHER}sys.setprofile(tell)\n${last}`,
    },
  ]),
  ...['settrace', 'setprofile'].map((way) => ({
    name: `${way} of an object that says it equals everything`,
    source: `${WATCHER}class Watcher:
    def __call__(self, *what):
        tell(*what)
    def __eq__(self, other): return True
sys.${way}(Watcher())
len("ab")`,
  })),
  {
    name: 'calls that are counted to the end',
    source:
      'import atexit, cProfile, pstats\np = cProfile.Profile()\ndef show():\n    p.disable()\n    print(sorted(name for _, _, name in pstats.Stats(p).stats))\natexit.register(show)\np.enable()\ndef f(): return 3\nf()',
  },
  {
    name: 'a breakpoint that nobody answers before the last statement',
    source: 'import pdb\npdb.set_trace()\nprint("hello")',
  },
  {
    name: 'a hook for audits',
    source:
      'import sys\nsys.addaudithook(lambda e, a: None if "Clear" not in e else print(e, flush=True))\nprint(1)',
  },
  {
    name: 'a callback of the collector',
    source: 'import gc\ngc.callbacks.append(lambda phase, info: print(phase))\nx = []\nx.append(x)\nprint(1)',
  },
  {
    name: 'a program that freezes what it has',
    source: 'import gc\nclass A:\n    def __del__(self): print("late")\na = A()\ngc.freeze()\nprint(1)',
  },
  {
    name: 'a fork whose child reaches the end too',
    source: 'import os\nif os.fork(): os.wait()\nprint("both")',
  },
  {
    name: 'a fork that returns late',
    source: 'import os, time\nif not os.fork():\n    time.sleep(0.05)\nelse:\n    os.wait()\nprint("both")',
  },
  { name: 'an exit with nothing', source: 'import sys\nprint(1)\nsys.exit(0)' },
  { name: 'an exit as the last statement', source: 'import sys\nprint(1)\nsys.exit(4)' },
  { name: 'an exit by name', source: 'print(1)\nexit()' },
  { name: 'an exception as the last statement', source: 'print(1)\nraise ValueError("x")' },
  { name: 'an exception in the last print', source: 'print(1)\nprint(1 / 0)' },
  { name: 'an exception in a last block', source: 'for x in (1, 0):\n    print(1 / x)' },
  {
    name: 'a return in a last function',
    source: 'def main():\n    print("in")\n    return 3\nif __name__ == "__main__":\n    main()',
  },
  { name: 'a docstring and nothing else', source: '"""doc"""\n"""more"""' },
  { name: 'a future import and nothing else', source: 'from __future__ import annotations' },
  { name: 'a statement over lines', source: 'x = [\n    1,\n    2,\n]\nprint(\n    x,\n    sep="",\n)' },
  { name: 'a last statement that is a class', source: 'class A:\n    print("body")' },
  {
    name: 'a metaclass that answers for its classes',
    source:
      'class M(type):\n    def __getattribute__(cls, name):\n        print("asked", name)\n        return type.__getattribute__(cls, name)\nclass A(metaclass=M): pass\na = A()\nprint(1)',
  },
  {
    name: 'other builtins',
    source:
      'import builtins\ndef no(*a): raise ValueError("asked")\nfor n in ("set", "map", "any", "len", "type", "hasattr", "isinstance"): setattr(builtins, n, no)\nprint(1)',
  },
  {
    name: 'other functions in os',
    source: 'import os\nos._exit = os.getpid = lambda *a: print("asked", a)\nprint(1)',
  },
  {
    name: 'an interpreter that stays, by its variable',
    source: 'import os\nos.environ["PYTHONINSPECT"] = "1"\nprint(1)',
  },
  {
    name: 'lists of modules in disorder',
    source: 'import sys\nsys.modules["json"] = 3\nsys.modules["new"] = object()\nprint(1)',
  },
  { name: 'much output in one piece', source: 'import sys\nsys.stdout.write("x" * 3000000)' },
  { name: 'much output in many pieces, and a value', source: 'for n in range(100000): print(n)\n[n]' },
]

const WAYS: Way[] = ['alone', 'cell', 'shared']

for (const way of WAYS)
  (way === 'shared' ? sharing : needs()).describe(`an interpreter by way of: ${way}`, () => {
    const start = (): Promise<Agent> =>
      way === 'shared' ? lab.startShared() : lab.start('python', { cell: way === 'cell' })

    test.each(CASES.map((c) => [c.name, c] as const))(
      'ends as without us: %s',
      async (_name, { source, files }) => {
        const work = lab.folder()
        const options = { work, ...(files === undefined ? {} : { files }) }
        const ours = await lab.once(python(source), { ...options, way })
        const theirs = await lab.bare(python(source), options)
        expect({
          exitCode: ours.exit.exitCode,
          signal: ours.exit.signal,
          stdout: steady(ours.stdout),
          stderr: steady(ours.stderr),
        }).toEqual({ ...theirs, stdout: steady(theirs.stdout), stderr: steady(theirs.stderr) })
      },
    )

    test('ends without taking apart what no check can know of', async () => {
      const plain = `import json, re, datetime, collections, dataclasses, random, math\n${WITNESS}`
      for (const last of ['print("end")', '[1, 2]', 'for x in "ab":\n    print(x)']) {
        const { exit, stdout } = await lab.once(python(plain + last), { way })
        expect({ exitCode: exit.exitCode, stdout }).toEqual({
          exitCode: 0,
          stdout: last.startsWith('print') ? 'end\n' : last.startsWith('for') ? 'a\nb\n' : '',
        })
        if (last.startsWith('[')) expect(exit.valueJson).toBe('[1,2]')
      }
    })

    test('takes all apart for a variable that says so', async () => {
      const agent = await start()
      const { stdout } = await agent.run(python(`${WITNESS}print("end")`), {}, { PYTHONMALLOCSTATS: '0' })
      expect(stdout).toBe((await lab.bare(python(`${WITNESS}print("end")`))).stdout)
      await stop(agent)
    })

    test('writes what stands in open files before the end is known', async () => {
      const agent = await start()
      await agent.run(python('f = open("out.txt", "w")\nf.write("x" * 70000)\nprint(1)'))
      expect((await agent.session.read('out.txt', 100_000)).length).toBe(70_000)
      if (way === 'cell') {
        await agent.session.clean('files')
        const { stdout } = await agent.run(python('print(len(open("out.txt").read()))'))
        expect(stdout).toBe('70000\n')
      }
      await stop(agent)
    })

    test('kills a child that holds stdout after a short end', async () => {
      const agent = await start()
      const source = `import os, time\nif not os.fork():\n    time.sleep(600)\nprint("on")`
      const { exit, stdout }: Ran = await agent.run(python(source))
      expect({ exitCode: exit.exitCode, stdout }).toEqual({ exitCode: 0, stdout: 'on\n' })
      await stop(agent)
    })

    test('survives a soft stop at any moment of the end', async () => {
      const agent = await lab.start('python', { cell: true })
      for (let n = 0; n < 10; n++) {
        const ran = agent.run(python('print("on", flush=True)'), {
          // The signal after this one would come half of it later, and is none of this test's.
          onOutput: () => agent.session.interrupt(60_000),
        })
        const { exit, stdout, stderr } = await ran
        expect(stdout).toBe('on\n')
        // The signal comes before the end, and is then what a bare run makes of it, or after it.
        if (exit.signal === null) expect({ code: exit.exitCode, stderr }).toEqual({ code: 0, stderr: '' })
        else expect(exit.signal).toBe('SIGINT')
      }
      await stop(agent)
    })
  })

for (const way of ['alone', 'shared'] as const)
  (way === 'shared' ? sharing : needs()).describe(`what rests at its end, by way of: ${way}`, () => {
    /** Looks like a process at its end, which only the agent's own gate is to make. */
    const REST = `import os, signal, time
def rest():
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - {signal.SIGRTMAX, signal.SIGRTMAX - 7})
    os.close(1)
    os.close(2)
`

    /** A vfork(2) that is no start of a program: its child computes in the memory that is there. */
    const SHARES_MEMORY = `import ctypes
libc, size = ctypes.PyDLL(None), 1 << 20
stack = ctypes.create_string_buffer(size)
ctypes.memset(stack, 1, size)
def compute(_):
    until = time.process_time() + 0.05
    while time.process_time() < until: pass
    os._exit(0)
call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(compute)
top = ctypes.c_void_p(ctypes.addressof(stack) + size - 64)
os.waitpid(libc.clone(call, top, 0x4100 | signal.SIGCHLD, None), 0)`

    test('is killed, and has ended', async () => {
      const agent = way === 'shared' ? await lab.startShared() : await lab.start('python')
      const { exit, stdout } = await agent.run(
        python(`${REST}print(os.getpid(), flush=True)\nrest()\nwhile True: pass`),
      )
      expect(exit.exitCode).toBe(0)
      expect(exit.usage.cpu_ms).toBeGreaterThan(0)
      const look = `import os, time
until = time.monotonic() + 20
try:
    while time.monotonic() < until: os.kill(${stdout.trim()}, 0)
except ProcessLookupError:
    print("gone")`
      expect((await agent.run(python(look))).stdout).toBe('gone\n')
      await stop(agent)
    })

    test.each([
      ['a thread', 'import threading\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()'],
      ['a silent child', 'if not os.fork():\n    os.close(1)\n    os.close(2)\n    time.sleep(60)'],
      ['a child that it waited for', 'if not os.fork(): os._exit(0)\nos.wait()'],
      ['time of a child that had its memory, and no page of its own', SHARES_MEMORY],
      [
        'a program that it was before',
        'import sys\nif not sys.argv[1:]: os.execv(sys.executable, [sys.executable, "main.py", "again"])',
      ],
      ['I/O that it hides', 'import ctypes\nctypes.CDLL(None).prctl(4, 0)'],
    ])('is left to its own end with %s', async (_name, before) => {
      const { exit } = await lab.once(python(`${REST}${before}\nrest()\ntime.sleep(0.1)\nos._exit(3)`), {
        way,
      })
      expect(exit.exitCode).toBe(3)
    })

    test('leaves nobody whom it makes after the agent has looked at it', async () => {
      const agent = way === 'shared' ? await lab.startShared() : await lab.start('python')
      // What the agent kills first gives it the time.
      await agent.run(
        python(`${REST}
ready, told = os.pipe()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for n in range(12):
    if os.fork() == 0:
        if os.fork() == 0:
            os.close(1)
            os.close(2)
            held = bytearray(b"x") * (8 << 20)
            os.write(told, b"x")
            time.sleep(60)
        os._exit(0)
for n in range(12): os.read(ready, 1)
while open("/proc/self/task/%d/children" % os.getpid()).read(): pass
rest()
time.sleep(0.003)
for n in range(5):
    if os.fork() == 0:
        os.setsid()
        open("made-%d" % os.getpid(), "w").close()
        time.sleep(60)
time.sleep(1)`),
      )
      const look = `import os
for name in os.listdir():
    try:
        state = name[:5] == "made-" and open("/proc/%s/stat" % name[5:]).read().rpartition(")")[2].split()[0]
        if state and state != "Z": print(name, state)
    except FileNotFoundError: pass`
      expect((await agent.run(python(look))).stdout).toBe('')
      await stop(agent)
    })

    test('is left to its own end while somebody may write', async () => {
      const source = 'import os\nos.dup(1)\nprint("on")'
      const { exit, stdout } = await lab.once(python(source), { way })
      expect({ exitCode: exit.exitCode, stdout }).toEqual({ exitCode: 0, stdout: 'on\n' })
      // It did rest: REST_S of cofferdam_ending.py.
      expect(exit.usage.wall_ms).toBeGreaterThanOrEqual(20)
    })

    test('counts what its children used', async () => {
      const child = '[sys.executable, "-c", "x = bytearray(90 << 20)"]'
      const source = `import os, sys\nos.waitpid(os.posix_spawn(sys.executable, ${child}, os.environ), 0)\nprint(1)`
      const { exit } = await lab.once(python(source), { way })
      expect(exit.usage.peak_memory_bytes).toBeGreaterThan(90 * 2 ** 20)
    })

    test('has its own CPU time and memory counted', async () => {
      const source = 'x = bytearray(60 << 20)\nfor i in range(1000000): pass\nprint(1)'
      const { exit } = await lab.once(python(source), { way })
      expect(exit.usage.peak_memory_bytes).toBeGreaterThan(60 * 2 ** 20)
      expect(exit.usage.cpu_ms).toBeGreaterThan(5)
    })
  })

test('the gate rests under the mask that the agent looks for, also with what comes with pandas', () => {
  const agent = fileURLToPath(new URL('../../agent', import.meta.url))
  const source = `import sys, types
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/python-gate"]
sys.dont_write_bytecode = True
import cofferdam_ending as gate
from cofferdam_agent import meters
print(meters.AT_REST == "%016x" % sum(1 << n - 1 for n in gate.AT_REST - {9, 19}))
ending = gate.Ending()
for name in ("_cython_0_29_32", "cython_runtime", "_sysconfigdata__x86_64-linux-gnu", "somebody"):
    sys.modules[name] = types.ModuleType(name)
    ending.preloaded([name])
    print(name, ending.preload_is_plain)`
  expect(execFileSync('python3', ['-I', '-c', source, agent], { encoding: 'utf8' })).toBe(
    'True\n_cython_0_29_32 True\ncython_runtime True\n_sysconfigdata__x86_64-linux-gnu True\nsomebody False\n',
  )
})

const steady = (text: string): string => text.replaceAll(/0x[0-9a-f]{6,}/g, '0xADDR')
