/** Python programs that act at or after their last statement end like in a bare run (see ending.test.ts). */
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

/** Reports what a trace or profile function sees. Its own calls are not among the reported ones. */
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
    name: 'an audit hook that writes when the interpreter is finalised, and a value',
    source:
      'import os, sys\nwrite = os.write\nsys.addaudithook(lambda event, _: write(1, b"end\\n") if "InterpreterState_Clear" in event else None)\n[1, 2]',
  },
  {
    name: 'an audit hook',
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
      'ends as without the agent: %s',
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

    test('writes buffers of open files before the run is over', async () => {
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

    test('kills a child that holds stdout after the program has ended', async () => {
      const agent = await start()
      const source = `import os, time\nif not os.fork():\n    time.sleep(600)\nprint("on")`
      const { exit, stdout }: Ran = await agent.run(python(source))
      expect({ exitCode: exit.exitCode, stdout }).toEqual({ exitCode: 0, stdout: 'on\n' })
      await stop(agent)
    })

    test('ends like a bare run if a soft stop comes at any moment of its end', async () => {
      const agent = await lab.start('python', { cell: true })
      for (let n = 0; n < 10; n++) {
        const ran = agent.run(python('print("on", flush=True)'), {
          // The agent would send SIGTERM after half of these 60 s. The run ends before that.
          onOutput: () => agent.session.interrupt(60_000),
        })
        const { exit, stdout, stderr } = await ran
        expect(stdout).toBe('on\n')
        // The signal comes before, during or after finalisation, with the same effect as in a bare run.
        if (exit.signal !== null) expect(exit.signal).toBe('SIGINT')
        else
          expect({ code: exit.exitCode, ignored: /^(?:$|Exception ignored)/.test(stderr) }).toEqual({
            code: 0,
            ignored: true,
          })
      }
      await stop(agent)
    })
  })

for (const way of ['alone', 'shared'] as const)
  (way === 'shared' ? sharing : needs()).describe(`what is counted of a program, by way of: ${way}`, () => {
    test('includes what its children used', async () => {
      const child = '[sys.executable, "-c", "x = bytearray(90 << 20)"]'
      const source = `import os, sys\nos.waitpid(os.posix_spawn(sys.executable, ${child}, os.environ), 0)\nprint(1)`
      const { exit } = await lab.once(python(source), { way })
      expect(exit.usage.peak_memory_bytes).toBeGreaterThan(90 * 2 ** 20)
    })

    test('includes its own CPU time and memory', async () => {
      const source = 'x = bytearray(60 << 20)\nfor i in range(1000000): pass\nprint(1)'
      const { exit } = await lab.once(python(source), { way })
      expect(exit.usage.peak_memory_bytes).toBeGreaterThan(60 * 2 ** 20)
      expect(exit.usage.cpu_ms).toBeGreaterThan(5)
    })
  })

const steady = (text: string): string => text.replaceAll(/0x[0-9a-f]{6,}/g, '0xADDR')
