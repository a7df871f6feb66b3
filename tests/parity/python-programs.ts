/** Python programs whose end or output is easy to get wrong when another program starts the interpreter. */
import type { TrickyProgram } from './tricky-program.ts'

const py = String.raw

export const PYTHON_PROGRAMS: readonly TrickyProgram[] = [
  { name: 'sys.exit with -1', source: 'import sys; print("x"); sys.exit(-1)' },
  { name: 'sys.exit with 300', source: 'import sys; sys.exit(300)' },
  { name: 'sys.exit with a huge number', source: 'import sys; sys.exit(2**70)' },
  { name: 'sys.exit with True', source: 'import sys; sys.exit(True)' },
  { name: 'sys.exit with a tuple', source: 'import sys; sys.exit((1, "a"))' },
  {
    name: 'sys.exit with an object that cannot be shown',
    source: py`
import sys
class A:
    def __str__(self): raise ValueError("no text")
sys.exit(A())`,
  },
  {
    name: 'SystemExit in a finally block',
    source: py`
try:
    raise ValueError("first")
finally:
    raise SystemExit(7)`,
  },
  { name: 'exit of the site module, which closes stdin', source: 'exit(4)' },
  {
    name: 'an exception with notes, groups and causes',
    source: py`
def boom():
    e = ValueError("a"); e.add_note("note\nof two lines"); return e
try:
    raise ExceptionGroup("many", [boom(), ExceptionGroup("in", [KeyError("k")])])
except ExceptionGroup as group:
    raise RuntimeError("outer") from group`,
  },
  {
    name: 'an exception whose text fails',
    source: py`
class E(Exception):
    def __str__(self): raise ValueError("broken")
raise E()`,
  },
  {
    name: 'a deep traceback with repeated lines',
    source: 'def f(n):\n    return f(n - 1) if n else 1 / 0\nf(50)',
  },
  { name: 'a recursion error', source: 'def f(n): return f(n + 1)\nf(0)' },
  {
    name: 'recursion down to the very same depth',
    source: py`
import sys
sys.setrecursionlimit(3000)
depth = 0
def f():
    global depth
    depth += 1
    f()
try:
    f()
except RecursionError as e:
    print(depth, e)`,
  },
  {
    name: 'an exception in a thread, and in __del__, and in atexit',
    source: py`
import threading, atexit
t = threading.Thread(target=lambda: [][1], name="worker"); t.start(); t.join()
class A:
    def __del__(self): raise ValueError("del")
a = A(); del a
atexit.register(lambda: 1 / 0)
atexit.register(print, "atexit")
print("end")`,
  },
  {
    name: 'atexit that exits with another code',
    source: 'import atexit, os\natexit.register(os._exit, 9)\nprint("x", flush=True)',
  },
  {
    name: 'a daemon thread at the end',
    source: py`
import threading, time
threading.Thread(target=lambda: time.sleep(30), daemon=True).start()
print("main is over")`,
  },
  {
    name: 'an excepthook of its own',
    source: py`
import sys
sys.excepthook = lambda kind, e, tb: (print("hook", kind.__name__, e, tb.tb_lineno), sys.stderr.write("err\n"))
raise KeyError("k")`,
  },
  { name: 'a syntax error in the middle', source: 'print("never")\ndef f(:\n    pass\n' },
  { name: 'an unclosed bracket', source: 'x = [1, 2\nprint(x)\n' },
  { name: 'tabs and spaces', source: 'if True:\n        x = 1\n\ty = 2\n' },
  { name: 'return outside a function', source: 'print(1)\nreturn 5\n' },
  {
    name: 'a syntax warning',
    source: 'x = 1\nif x is 1: print("is")\nprint("\\d", x)\nassert (x, "always")\n',
  },
  { name: 'an unknown encoding cookie', source: '# -*- coding: nonsense -*-\nprint(1)\n' },
  { name: 'a byte order mark', source: '\ufeffprint("bom", __doc__)\n1' },
  {
    name: 'form feeds and line separators',
    source: 'print("a\u2028b")\n\f\nprint(2)\nraise ValueError("z")',
  },
  { name: 'no newline at the end of an error', source: 'x = 1\nx.nothing' },
  {
    name: 'bytes that are no text',
    source: 'import sys\nsys.stdout.buffer.write(bytes(range(256)))\nsys.stderr.buffer.write(b"\\xff\\xfe")',
  },
  { name: 'surrogates in a message', source: 'raise ValueError("\\udcff and \\ud800")' },
  { name: 'decoding errors', source: 'b"\\xff".decode()' },
  {
    name: 'encodings of everything',
    source: py`
import sys, locale, os
for s in (sys.stdin, sys.stdout, sys.stderr):
    print(s.encoding, s.errors, s.line_buffering, s.isatty(), s.fileno(), s.name, s.mode)
print(locale.getpreferredencoding(), sys.getfilesystemencoding(), locale.setlocale(locale.LC_ALL))`,
  },
  {
    name: 'the environment as a child sees it',
    source: py`
import os, subprocess, sys
print(sorted(os.environ.items()))
print(subprocess.run(["env"], capture_output=True, text=True).stdout)
print(sys.flags, sys.path, sys.orig_argv, sys.executable, sys.prefix)`,
  },
  {
    name: 'modules, globals and the main module',
    source: py`
import sys
print(sorted(k for k in globals()), __file__, __spec__, __package__, __cached__ if "__cached__" in globals() else None)
print(type(__loader__), sys.modules["__main__"], sorted(m for m in sys.modules if m.startswith(("site", "war", "trace", "json"))))
import __main__
print(__main__.__dict__ is globals())
"last"`,
  },
  {
    name: 'inspect and linecache of main',
    source: py`
import inspect, linecache
class A:
    """Doc."""
    def m(self):
        return 1  # here
print(inspect.getsource(A.m), inspect.getfile(A), inspect.getsourcelines(A)[1])
print(repr(linecache.getline(__file__, 3)), inspect.currentframe().f_lineno, inspect.stack()[0].code_context)
A().m()`,
  },
  {
    name: 'pickle of main classes and dataclasses',
    source: py`
import pickle, dataclasses, enum, typing
@dataclasses.dataclass(order=True, slots=True)
class P:
    x: int
    y: "list[int]" = dataclasses.field(default_factory=list)
class C(enum.Enum):
    A = 1
data = pickle.dumps([P(1, [2]), C.A])
print(data, pickle.loads(data), typing.get_type_hints(P))
P(3)`,
  },
  {
    name: 'warnings of every kind',
    source: py`
import warnings
for kind in (UserWarning, DeprecationWarning, ResourceWarning, FutureWarning, RuntimeWarning):
    warnings.warn(kind.__name__, kind)
def old(): warnings.warn("from here", DeprecationWarning, stacklevel=2)
old()
open(__file__)
print(warnings.filters)`,
  },
  { name: 'a coroutine that nobody awaits', source: 'async def f(): pass\nf()' },
  {
    name: 'asyncio with a lost exception',
    source: py`
import asyncio
async def bad(): raise ValueError("lost")
async def main():
    task = asyncio.create_task(bad(), name="bad")
    await asyncio.sleep(0.01)
    del task
    return 5
print(asyncio.run(main()))
asyncio.run(asyncio.wait_for(asyncio.sleep(9), 0.01))`,
  },
  {
    name: 'input at the end of the file',
    source: 'try:\n    input("? ")\nexcept EOFError as e:\n    print(repr(e))\ninput()',
  },
  {
    name: 'lines of standard input',
    source: 'import sys\nprint(input("> "), sys.stdin.readline(), list(sys.stdin), sys.stdin.read())',
    stdin: 'a\r\nb\nc\nd',
  },
  {
    name: 'what standard input is',
    source:
      'import os, stat, sys\nm = os.fstat(0).st_mode\nprint(stat.S_ISCHR(m), stat.S_ISFIFO(m), sys.stdin.seekable(), sorted(os.listdir("/proc/self/fd"))[:3])',
  },
  {
    name: 'stdin closed',
    source:
      'import sys, os\nsys.stdin.close()\ntry:\n    input()\nexcept Exception as e:\n    print(type(e), e)\nprint(os.open("/dev/null", os.O_RDONLY))',
  },
  { name: 'stdout closed below Python', source: 'import os\nprint("lost")\nos.close(1)' },
  {
    name: 'stdout and stderr closed',
    source: 'import sys\nsys.stdout.close(); sys.stderr.close()\nraise ValueError("nobody hears")',
  },
  {
    name: 'order and flush of both streams',
    source: py`
import os, sys
print("one", end=""); sys.stderr.write("two"); os.write(1, b"three"); print("four", flush=True)
sys.stderr.flush(); os.write(2, b"five\n"); sys.stdout.write("six")`,
  },
  {
    name: 'os._exit loses what is buffered',
    source: 'import os, sys\nprint("lost")\nsys.stderr.write("kept")\nos._exit(0)',
  },
  { name: 'os.abort', source: 'import os\nprint("lost")\nos.abort()' },
  { name: 'a segmentation fault', source: 'import ctypes\nprint("before", flush=True)\nctypes.string_at(0)' },
  {
    name: 'a segmentation fault with faulthandler',
    source: 'import faulthandler, ctypes\nfaulthandler.enable()\ndef f(): ctypes.string_at(0)\nf()',
  },
  {
    name: 'killed by each of some signals',
    source: 'import os, signal, sys\nprint("x", flush=True)\nos.kill(os.getpid(), signal.SIGUSR1)',
  },
  {
    name: 'SIGTERM and its default',
    source: 'import os, signal\nprint(signal.getsignal(15), flush=True)\nos.kill(os.getpid(), 15)',
  },
  {
    name: 'SIGINT as an exception',
    source: 'import signal, time\nsignal.raise_signal(signal.SIGINT)\ntime.sleep(5)',
  },
  {
    name: 'SIGPIPE of a child that closes early',
    source: py`
import subprocess
p = subprocess.Popen(["true"], stdin=subprocess.PIPE); p.wait()
try:
    p.stdin.write(b"x" * 100000); p.stdin.flush()
except BrokenPipeError as e:
    print(e)
print(subprocess.run("yes | head -1; echo \${PIPESTATUS[0]}", shell=True, executable="/bin/bash", capture_output=True))`,
  },
  {
    name: 'an alarm',
    source:
      'import signal, time\nsignal.signal(signal.SIGALRM, lambda *a: print("alarm", a[0]))\nsignal.setitimer(signal.ITIMER_REAL, 0.02)\ntime.sleep(0.1)\nsignal.alarm(1); signal.signal(signal.SIGALRM, signal.SIG_DFL)\ntime.sleep(3)',
  },
  {
    name: 'multiprocessing by fork',
    source:
      'import multiprocessing as mp\ndef f(q): q.put(("child", __name__)); raise SystemExit(3)\nq = mp.get_context("fork").Queue(); p = mp.get_context("fork").Process(target=f, args=(q,)); p.start(); print(q.get()); p.join(); print(p.exitcode)',
  },
  {
    name: 'multiprocessing by spawn',
    source: py`
import multiprocessing as mp
class T:
    def __init__(self, n): self.n = n
def f(t): return (t.n * 2, __name__, mp.current_process().name)
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map(f, [T(1), T(2)]))
    with mp.get_context("forkserver").Pool(1) as pool:
        print(pool.map(f, [T(3)]))`,
  },
  {
    name: 'a spawn without a main guard',
    source:
      'import multiprocessing as mp\nmp.set_start_method("spawn")\np = mp.Process(target=print); p.start(); p.join(); print(p.exitcode)',
  },
  {
    name: 'a process pool with an exception',
    source: py`
from concurrent.futures import ProcessPoolExecutor
def f(x): return 1 / x
if __name__ == "__main__":
    with ProcessPoolExecutor(1) as pool:
        work = [pool.submit(f, n) for n in (1, 0)]
    print(work[0].result())
    print(work[1].result())`,
  },
  {
    name: 'a subprocess that inherits the streams',
    source: py`
import subprocess, sys
print("parent", flush=True)
subprocess.run([sys.executable, "-c", "import sys; print('child', sys.argv, sys.path[0]); sys.exit('bad')"])
subprocess.run("echo shell; cat; exit 3", shell=True, check=True)`,
  },
  {
    name: 'an orphan that outlives main',
    source: 'import subprocess\nsubprocess.Popen(["sleep", "60"])\nprint("done")',
  },
  {
    name: 'a fork where both reach the end',
    source:
      'import os, sys\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint("parent" if pid else "child")\nsys.exit(5 if pid else 6)',
  },
  {
    name: 'exec of another program',
    source:
      'import os\nprint("before", flush=True)\nos.execvp("sh", ["sh", "-c", "echo $0 $1; exit 12", "a", "b"])',
  },
  {
    name: 'arguments',
    source: 'import sys\nprint(sys.argv, len(sys.argv[2]))',
    argv: ['-x', 'é 漢', '', '--', "'q'"],
  },
  {
    name: 'running and importing itself',
    source:
      'import sys, runpy\nprint(__name__)\nif __name__ == "__main__":\n    import main\n    print(main.__file__)\n    runpy.run_path(__file__)',
  },
  {
    name: 'reading and removing its own file',
    source:
      'import os\nprint(len(open(__file__).read()), os.listdir("."))\nos.remove(__file__)\nprint(os.listdir("."))\nundefined',
  },
  {
    name: 'the current folder, its mode and its owner',
    source:
      'import os\ns = os.stat(".")\nf = os.stat(__file__)\nprint(os.getcwd(), oct(s.st_mode), s.st_uid == os.getuid(), oct(f.st_mode), f.st_uid == os.getuid(), os.umask(0))',
  },
  {
    name: 'sessions, groups and limits',
    source:
      'import os, resource\nprint(os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.nice(0), resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NOFILE), os.sched_getaffinity(0) == set(range(os.cpu_count())))',
  },
  {
    name: 'long lines without a newline',
    source: 'import sys\nsys.stdout.write("x" * 300000)\nsys.stderr.write("y" * 30000)',
  },
  {
    name: 'a threading lock that is held at the end',
    source:
      'import threading\nt = threading.Thread(target=threading.main_thread().join); t.start()\nprint(threading.active_count(), threading.main_thread(), threading.current_thread().name)\nraise SystemExit("held")',
  },
  {
    name: 'doctest and unittest of main',
    source: py`
import unittest
def f():
    """
    >>> f()
    2
    """
    return 1
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(f(), 2)
if __name__ == "__main__":
    import doctest
    doctest.testmod()
    unittest.main(verbosity=0, argv=["main"], exit=False)
    raise SystemExit(len(T.__name__))`,
  },
  {
    name: 'tracing and profiling',
    source:
      'import sys, cProfile\nprint(sys.gettrace(), sys.getprofile())\ncalls = []\nsys.settrace(lambda f, e, a: calls.append((f.f_code.co_name, f.f_lineno)))\ndef f(): pass\nf()\nsys.settrace(None)\nprint(calls)\nf()',
  },
  {
    name: 'the interactive hook and builtins',
    source:
      'import builtins, sys\nprint(hasattr(builtins, "_"), sys.displayhook, hasattr(sys, "ps1"))\n[1, 2]',
  },
  { name: 'memory that is not there', source: 'x = bytearray(1 << 40)', ending: 'oom' },
]
