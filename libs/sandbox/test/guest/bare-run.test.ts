/** A program prints, exits and fails with the agent as without it: same bytes, code and traceback. */
import type { Language, ProgramFile } from '@cofferdam/contract'
import { isLongTier } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openLab, sharing, type Lab, type Way } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

const file = (path: string, text: string): ProgramFile => ({ path, bytes: Buffer.from(text) })

interface Case {
  name: string
  source: string
  argv?: string[]
  stdin?: string
  files?: ProgramFile[]
}

const PYTHON: Case[] = [
  { name: 'prints', source: 'print("hello")' },
  { name: 'an empty program', source: '' },
  { name: 'only a comment', source: '# nothing' },
  { name: 'only a docstring', source: '"""doc"""' },
  {
    name: 'arguments',
    source: 'import sys\nprint(sys.argv, __file__, __name__, __package__)',
    argv: ['a', 'b c', 'é'],
  },
  {
    name: 'its own source',
    source: 'import inspect\ndef f():\n    return 1\nprint(open(__file__).read())\ninspect.getsource(f)',
  },
  {
    name: 'loader and spec',
    source: 'print(type(__loader__).__name__, __loader__.name, __loader__.path, __spec__, __builtins__)\n1',
  },
  {
    name: 'modules that are loaded',
    source:
      'import sys\nprint(sorted(m for m in sys.modules if m not in ("_ast", "marshal")))\nlen(sys.path)',
  },
  {
    name: 'the search path',
    source:
      'import sys\nprint(sys.path, sys.flags, sys.executable, sys.orig_argv[1:], [k for k, v in sys.path_importer_cache.items() if v is None and k.endswith(".py")])',
  },
  {
    name: 'what the start has left of itself',
    source:
      'import os, site, sys\nprint(site.execusercustomize.__module__, site.execusercustomize.__code__.co_name, site.ENABLE_USER_SITE, "usercustomize" in sys.modules, sorted(f for f in os.listdir("/proc/self/fd") if 2 < int(f) < 100))',
  },
  {
    name: 'what a pipe of input is',
    source:
      'import os, sys\nprint(sys.stdin, sys.stdin.seekable(), sys.stdin.buffer.raw, sys.stdin is sys.__stdin__, sorted(f for f in os.listdir("/proc/self/fd") if 2 < int(f) < 100))',
    stdin: 'text',
  },
  { name: 'globals', source: 'print(sorted(globals()))\nx = 1\nx' },
  {
    name: 'an uncaught exception',
    source: 'def f(x):\n    return g(x)\ndef g(x):\n    return 1 / x\nprint("before")\nf(0)',
  },
  { name: 'an exception in a library', source: 'import json\njson.loads("{")' },
  {
    name: 'a chained exception',
    source: 'try:\n    {}["a"]\nexcept KeyError as e:\n    raise ValueError("bad") from e',
  },
  { name: 'a syntax error', source: 'print("never")\nx = = 1\n' },
  { name: 'an indentation error', source: 'if True:\nprint(1)' },
  { name: 'a null byte', source: 'print(1)\0' },
  { name: 'a warning of the compiler', source: 'import re\nprint(1 is 1)\n"\\d"\nre' },
  {
    name: 'a deprecation warning',
    source: 'import warnings\nwarnings.warn("old", DeprecationWarning)\nwarnings.warn("user")\n1 + 1',
  },
  { name: 'an encoding cookie', source: '# -*- coding: latin-1 -*-\nprint(len("\u00e9"))\n"x"' },
  { name: 'carriage returns', source: 'print(1)\r\nprint(2)\r\n3 + 4\r\n' },
  {
    name: 'future imports',
    source:
      '"""doc"""\nfrom __future__ import annotations\ndef f(x: nowhere): pass\nprint(f.__annotations__, __doc__)\nf',
  },
  { name: 'exit with a number', source: 'import sys\nsys.exit(3)' },
  { name: 'exit with a text', source: 'raise SystemExit("gone wrong")' },
  { name: 'exit with none', source: 'import sys\nsys.exit()' },
  { name: 'exit with 256', source: 'import sys\nsys.exit(256)' },
  {
    name: 'exit in a thread',
    source:
      'import threading, sys\nt = threading.Thread(target=lambda: sys.exit(5))\nt.start(); t.join()\nprint("on")',
  },
  {
    name: 'an exception in a thread',
    source:
      'import threading\nt = threading.Thread(target=lambda: 1/0, name="T")\nt.start(); t.join()\nprint("on")',
  },
  {
    name: 'a thread that outlives main',
    source:
      'import threading\ndef f():\n    threading.main_thread().join(); print("late")\nthreading.Thread(target=f).start()\nprint("main")\n"value"',
  },
  { name: 'os._exit', source: 'import os\nprint("lost?")\nos._exit(9)' },
  { name: 'atexit', source: 'import atexit\natexit.register(print, "bye")\nprint("hi")\n7' },
  {
    name: 'finalisers',
    source:
      'class A:\n    def __del__(self): print("del")\na = A()\nkeep = open("out.txt", "w")\nkeep.write("x")\na',
  },
  {
    name: 'the stack of frames',
    source:
      'import sys, traceback\ndef f():\n    traceback.print_stack()\n    return len([1 for _ in iter(lambda f=[sys._getframe()]: f.append(f.pop().f_back) or f[0], None)])\nprint(f())\nf()',
  },
  {
    name: 'the recursion limit',
    source:
      'def f(n):\n    try:\n        return f(n + 1)\n    except RecursionError:\n        return n\nprint(f(0))\nf(0)',
  },
  {
    name: 'a second interpreter in the process',
    source: `try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
it = interpreters.create()
interpreters.run_string(it, "import os, sys; print(sys.path, sorted(sys.modules), list(sys.path_importer_cache), os.environ.get('PYTHONPATH'))")
interpreters.destroy(it)
print(1)`,
  },
  {
    name: 'a provided module',
    source: 'import helper\nprint(helper.x)\nhelper.fail()',
    files: [file('helper.py', 'x = 4\ndef fail():\n    raise OSError(2, "no")\n')],
  },
  {
    name: 'a provided module that hides a library',
    source: 'import json, random\nprint(json.mine, random.mine)\n1',
    files: [file('json.py', 'mine = 1'), file('random.py', 'mine = 2')],
  },
  {
    name: 'a package',
    source: 'from pkg.sub import thing\nprint(thing)',
    files: [file('pkg/__init__.py', ''), file('pkg/sub.py', 'thing = __name__')],
  },
  {
    name: 'reading input',
    source: 'print([input(), input("? ")])\nimport sys\nprint(sys.stdin.read())',
    stdin: 'one\ntwo\nrest\nmore',
  },
  { name: 'no input', source: 'input()' },
  {
    name: 'what no input is',
    source:
      'import os, stat, sys\nprint(stat.S_ISCHR(os.fstat(0).st_mode), sys.stdin, sys.stdin.seekable(), sys.stdin is sys.__stdin__, [f for f in os.listdir("/proc/self/fd") if f in ("198", "199")])',
  },
  {
    name: 'subprocess',
    source:
      'import subprocess, sys\nprint(subprocess.run([sys.executable, "-c", "import sys; print(sys.path[0] == \'\', \'sitecustomize\' in sys.modules, sys.stdin.read())"], capture_output=True, text=True))',
  },
  {
    name: 'multiprocessing by spawn',
    source:
      'import multiprocessing as mp\ndef sq(x):\n    return x * x\nif __name__ == "__main__":\n    mp.set_start_method("spawn")\n    with mp.Pool(2) as pool:\n        print(pool.map(sq, range(4)))',
  },
  {
    name: 'multiprocessing by fork',
    source:
      'import multiprocessing as mp\ndef sq(x):\n    return x * x\nif __name__ == "__main__":\n    with mp.get_context("fork").Pool(2) as pool:\n        print(pool.map(sq, range(4)))',
  },
  {
    name: 'a fork that reaches the last line too',
    source: 'import os\npid = os.fork()\nif pid: os.wait()\nprint("both", flush=True)\n[1]',
  },
  {
    name: 'asyncio',
    source:
      'import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n    p = await asyncio.create_subprocess_exec("echo", "sub")\n    await p.wait()\n    return 3\nprint(asyncio.run(main()))',
  },
  {
    name: 'interrupting itself',
    source: 'import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)',
  },
  {
    name: 'killing itself',
    source: 'import os, signal\nprint("x", flush=True)\nos.kill(os.getpid(), signal.SIGKILL)',
  },
  { name: 'aborting', source: 'import os\nos.abort()' },
  {
    name: 'the state of signals',
    source:
      'import signal\nprint([(s.name, str(signal.getsignal(s))) for s in sorted(signal.valid_signals()) if isinstance(s, signal.Signals)], signal.pthread_sigmask(0, []))',
  },
  {
    name: 'closing its own stdout',
    source: 'import sys\nprint("a", flush=True)\nsys.stdout.close()\nsys.exit(4)',
  },
  { name: 'unencodable output', source: 'print("\\ud800")' },
  {
    name: 'mixed streams',
    source: 'import sys\nfor i in range(5):\n    print(i)\n    print(i, file=sys.stderr)\nNone',
  },
  {
    name: 'the environment',
    source:
      'import os, sys\nprint(sorted(k for k in os.environ if k != "LC_CTYPE"), sys.stdout.encoding, sys.flags.utf8_mode)',
  },
  { name: 'time zones', source: 'import time\nprint(time.tzname, time.localtime(0).tm_hour)' },
]

const NODE: Case[] = [
  { name: 'prints', source: 'console.log("hello", [1, {a: 2}])' },
  {
    name: 'arguments',
    source: 'console.log(process.argv, process.execArgv, __filename, require.main === module)',
    argv: ['x', 'y z'],
  },
  { name: 'an uncaught error', source: 'function f() { throw new TypeError("bad") }\nconsole.log(1)\nf()' },
  { name: 'an unhandled rejection', source: 'console.log(1); Promise.reject(new Error("later"))' },
  { name: 'a syntax error', source: 'let x = = 1' },
  { name: 'process.exit', source: 'process.on("exit", (c) => console.log("bye", c)); process.exit(6)' },
  { name: 'exitCode', source: 'process.exitCode = 9' },
  {
    name: 'an ES module',
    source:
      'import fs from "node:fs"\nimport { x } from "./lib.mjs"\nconsole.log(x, import.meta.url, typeof require)\nawait 1',
    files: [file('lib.mjs', 'export const x = 5')],
  },
  {
    name: 'require of a provided file',
    source: 'console.log(require("./lib").x, module.paths.length); require("./missing")',
    files: [file('lib.js', 'exports.x = 5')],
  },
  {
    name: 'a package that says module',
    source: 'import "./a.js"\nconsole.log(this)',
    files: [file('package.json', '{"type":"module"}'), file('a.js', 'export {}')],
  },
  {
    name: 'input',
    source: 'process.stdin.on("data", (d) => console.log(String(d))).on("end", () => console.log("end"))',
    stdin: 'abc',
  },
  {
    name: 'worker threads and children',
    source:
      'const { Worker } = require("worker_threads"); const cp = require("child_process"); new Worker("require(\'worker_threads\').parentPort.postMessage(process.execArgv.length)", { eval: true }).on("message", (m) => { console.log(m); console.log(cp.execFileSync(process.execPath, ["-p", "1+1"]).toString()) })',
  },
  {
    name: 'fork of itself',
    source:
      'const cp = require("child_process"); if (process.argv[2] === "child") { process.send("up"); process.disconnect() } else cp.fork(__filename, ["child"]).on("message", (m) => console.log(m))',
  },
  {
    name: 'listeners and environment',
    source:
      'console.log(process.eventNames(), Object.keys(process.env).sort(), Object.keys(require.cache).length)',
  },
  { name: 'a warning', source: 'process.emitWarning("careful"); new Buffer(1)' },
  {
    name: 'exports that run code when they are looked at',
    source:
      'module.exports = new Proxy({ get a() { console.log("a") } }, { get() { console.log("get") }, ownKeys() { console.log("keys"); return [] }, getPrototypeOf() { console.log("proto"); return null } })',
  },
  {
    name: 'handles, paths and descriptors before the first output',
    source:
      'const fs = require("fs"); fs.writeSync(1, JSON.stringify([process.getActiveResourcesInfo(), require("module")._pathCache, fs.readdirSync("/proc/self/fd").filter((f) => f === "198" || f === "199")]))',
  },
  {
    name: 'no input',
    source:
      'console.log(process.stdin.constructor.name, require("fs").fstatSync(0).isCharacterDevice()); process.stdin.on("data", console.log).on("end", () => console.log("end"))',
  },
  { name: 'exports at the end', source: 'module.exports = { a: [1, "x"] }' },
  { name: 'the stack', source: 'console.log(new Error("here").stack)' },
  { name: 'killing itself', source: 'process.kill(process.pid, "SIGTERM"); setTimeout(() => {}, 5000)' },
]

const TYPESCRIPT: Case[] = [
  { name: 'a missing module beside the word enum', source: '// enum\nimport "./nothing.ts"' },
  {
    name: 'types',
    source: 'interface A { n: number }\nconst a: A = { n: 3 }\nconsole.log(a satisfies A, <T>(x: T): T => x)',
  },
  {
    name: 'a provided module',
    source: 'import { x, type T } from "./lib.ts"\nconst t: T = x\nconsole.log(t)',
    files: [file('lib.ts', 'export type T = number\nexport const x: T = 3')],
  },
  {
    name: 'an error with its line',
    source: 'type A = string\n\nfunction f(a: A): never { throw new Error(a) }\nf("no")',
  },
]

const BASH: Case[] = [
  { name: 'arguments and code', source: 'echo "$0 $# $1"; echo err >&2; exit 7', argv: ['a b'] },
  { name: 'pipes that end early', source: 'yes | head -2; echo "${PIPESTATUS[@]}"' },
  { name: 'input', source: 'read a; echo "[$a]"; cat', stdin: 'x\ny\nz' },
  { name: 'no input', source: 'read a; echo $?; [ -c /dev/stdin ]; echo $?' },
  { name: 'a missing command', source: 'nosuchcommand; echo $?' },
  { name: 'a syntax error', source: 'if then' },
  { name: 'killing itself', source: 'kill -TERM $$' },
]

/** IDs and addresses differ from run to run. */
const steady = (text: string): string =>
  text
    .replaceAll(/0x[0-9a-f]{6,}/g, '0xADDR')
    .replaceAll(/\(node:\d+\)/g, '(node:PID)')
    .replaceAll(/Thread-\d+/g, 'Thread-N')

const all: [Language, Case][] = [
  ...PYTHON.map((c): [Language, Case] => ['python', c]),
  ...NODE.map((c): [Language, Case] => ['javascript', c]),
  ...TYPESCRIPT.map((c): [Language, Case] => ['typescript', c]),
  ...BASH.map((c): [Language, Case] => ['bash', c]),
]

/** In a cell, Python is a fork of a prepared interpreter; other languages start as usual. */
const inCell = [
  ...PYTHON,
  {
    name: 'ctypes and sockets',
    source:
      'import ctypes, socket, _socket, os\nprint(ctypes.CDLL(None).getpid() == os.getpid(), ctypes.sizeof(ctypes.c_long))\na, b = socket.socketpair()\na.send(b"x"); print(b.recv(1))',
  },
]

const ways: [Language, string, Way, Case][] = [
  ...all.map(([language, c]): [Language, string, Way, Case] => [language, c.name, 'alone', c]),
  ...inCell.map((c): [Language, string, Way, Case] => ['python', c.name, 'cell', c]),
]
const shared = inCell.map((c): [Language, string, Way, Case] => ['python', c.name, 'shared', c])

for (const each of isLongTier() ? [test.each(ways), sharing.it.each(shared)] : [test.each(ways)])
  each('runs %s, %s, as without us (%s)', async (language, _name, way, { source, argv, stdin, files }) => {
    const program = { type: 'script' as const, language, source, ...(argv === undefined ? {} : { argv }) }
    const work = lab.folder()
    const options = {
      work,
      ...(files === undefined ? {} : { files }),
      ...(stdin === undefined ? {} : { stdin }),
    }
    const ours = await lab.once(program, { ...options, way })
    const theirs = await lab.bare(program, options)
    expect({
      exitCode: ours.exit.exitCode,
      signal: ours.exit.signal,
      stdout: steady(ours.stdout),
      stderr: steady(ours.stderr),
    }).toEqual({ ...theirs, stdout: steady(theirs.stdout), stderr: steady(theirs.stderr) })
  })
