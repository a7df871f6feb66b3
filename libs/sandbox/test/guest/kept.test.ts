/** Sessions that keep their interpreter: state between runs, ends of runs, and what must not continue. */
import { readFileSync, readdirSync } from 'node:fs'
import type { Exit, Language, Program } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { openLab, stop, type Agent, type Lab, type Ran } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

const KEEP = { keepInterpreter: true }
/** Seconds that identify this file's own processes among all that sleep on this machine. */
const SLEEP = `9877.${process.pid}`
type Step = (
  source: string,
  more?: { stdin?: string; env?: Record<string, string>; argv?: string[] },
) => Promise<Ran>

async function session(language: Language, cell: boolean): Promise<{ agent: Agent; step: Step }> {
  const agent = await lab.start(language, { cell })
  return {
    agent,
    step: (source, { stdin, env = {}, argv } = {}) =>
      agent.run(
        { type: 'script', language, source, ...(argv === undefined ? {} : { argv }) } as Program,
        stdin === undefined ? {} : { stdin: Buffer.from(stdin) },
        env,
        KEEP,
      ),
  }
}

/** State letters of a process's children, as a check from outside the agent. */
const childrenOf = (pid: number): { pid: number; state: string }[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const [state, parent] = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
        return Number(parent) === pid ? [{ pid: Number(name), state: state! }] : []
      } catch {
        return []
      }
    })

test.each([false, true])('Python keeps variables, modules and directory (cell: %s)', async (cell) => {
  const { agent, step } = await session('python', cell)
  const first = await step(
    'import math, os\nx = 20\ndef f(n):\n    return n / 0\nos.mkdir("d"); os.chdir("d")\nx + 1',
  )
  expect(first).toMatchObject({ stdout: '', stderr: '', exit: { exitCode: 0, valueJson: '21' } })
  expect(agent.session.interpreterAlive()).toBe(true)
  const second = await step('print(x, math.pi > 3, os.path.basename(os.getcwd()), __name__)\n{"n": x}')
  expect(second).toMatchObject({ stdout: '20 True d __main__\n', exit: { valueJson: '{"n":20}' } })
  const third = await step('y = 1\nf(2)')
  expect(third.exit.exitCode).toBe(1)
  expect(third.stderr).toBe(`Traceback (most recent call last):
  File "<run 3>", line 2, in <module>
    f(2)
  File "<run 1>", line 4, in f
    return n / 0
           ~~^~~
ZeroDivisionError: division by zero
`)
  expect(await step('import sys\nprint(y, end="")\nsys.exit(3)')).toMatchObject({
    stdout: '1',
    exit: { exitCode: 3 },
  })
  expect((await step('x = = 1')).stderr).toContain('SyntaxError')
  expect(
    (
      await step('print(input(), sys.argv[1:], os.environ["E"])', {
        stdin: 'in\n',
        env: { E: 'v' },
        argv: ['a'],
      })
    ).stdout,
  ).toBe("in ['a'] v\n")
  expect((await step('print(sys.stdin.read() == "", y)')).stdout).toBe('True 1\n')
  expect(agent.session.interpreterAlive()).toBe(true)
  await stop(agent)
})

test('a second interpreter in a kept Python does not disturb the agent’s protocol', async () => {
  const { agent, step } = await session('python', true)
  const made = await step(`try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
it = interpreters.create()
interpreters.run_string(it, "print('from the second')")
interpreters.destroy(it)
x = 1`)
  expect(made).toMatchObject({ stdout: 'from the second\n', stderr: '', exit: { exitCode: 0 } })
  expect(await step('print(x)')).toMatchObject({ stdout: '1\n', stderr: '', exit: { exitCode: 0 } })
  await stop(agent)
})

test.each([false, true])('JavaScript and TypeScript share their variables (cell: %s)', async (cell) => {
  const { agent, step } = await session('javascript', cell)
  expect(await step('const a = 1; let b = [2]; function f() { return a + b[0] }\nf()')).toMatchObject({
    stderr: '',
    exit: { exitCode: 0, valueJson: '3' },
  })
  expect(await step('b.push(a); console.log(f(), b, require("node:path").sep)')).toMatchObject({
    stdout: '3 [ 2, 1 ] /\n',
    stderr: '',
  })
  expect((await step('const a = 2')).stderr).toContain("Identifier 'a' has already been declared")
  const later = await step('setTimeout(() => console.log("late"), 30); console.log("first")')
  expect(later).toMatchObject({ stdout: 'first\nlate\n', exit: { exitCode: 0 } })
  const thrown = await step('function g() { throw new TypeError("no") }\ng()')
  expect(thrown.exit.exitCode).toBe(1)
  expect(thrown.stderr).toContain('TypeError: no\n    at g (<run 5>:1:')
  expect(thrown.stderr).not.toContain('session.cjs')
  expect((await step('setTimeout(() => { throw new Error("async") }, 1)')).exit.exitCode).toBe(1)
  const awaited = await step('const late = await Promise.resolve(5)\nconsole.log(late)')
  expect(awaited).toMatchObject({ stdout: '5\n', stderr: '', exit: { exitCode: 0 } })
  expect((await step('console.log(late, a)')).stdout).toBe('5 1\n')
  expect((await step('process.exitCode = 4')).exit.exitCode).toBe(4)
  expect(
    (await step('process.stdin.on("data", (d) => console.log(String(d)))', { stdin: 'text' })).stdout,
  ).toBe('text\n')
  expect((await step('console.log(require("fs").readFileSync(0, "utf8") === "")')).stdout).toBe('true\n')
  const typed = await agent.run(
    {
      type: 'script',
      language: 'typescript',
      source: 'enum L { x, y }\nconst n: number = a + L.y; console.log(n)',
    },
    {},
    {},
    KEEP,
  )
  expect(typed).toMatchObject({ stdout: '2\n', stderr: '' })
  expect(agent.session.interpreterAlive()).toBe(true)
  await step('process.exit(6)').then(({ exit }) => expect(exit.exitCode).toBe(6))
  expect(agent.session.interpreterAlive()).toBe(false)
  expect((await step('console.log(typeof a)')).stdout).toBe('undefined\n')
  await stop(agent)
})

test('JavaScript and TypeScript may use imports, and later runs see the names', async () => {
  const { agent, step } = await session('javascript', true)
  const first = await step(
    [
      '// The parts.',
      "import fs, { existsSync as has, statSync } from 'node:fs'",
      "import * as path from 'node:path'; import 'node:os'",
      'import {',
      '  deepEqual,',
      '  equal as same,',
      "} from 'node:assert/strict'",
      "fs.writeFileSync('d.json', '[7]')",
      "fs.writeFileSync('m.mjs', 'export default 3; export const two = 2')",
      "console.log(has('d.json'), statSync('d.json').size, path.sep, typeof deepEqual, typeof same)",
    ].join('\n'),
  )
  expect(first).toMatchObject({ stdout: 'true 3 / function function\n', stderr: '', exit: { exitCode: 0 } })
  const second = await step(
    [
      "import three, * as m from './m.mjs'",
      "import d from './d.json' with { type: 'json' }",
      "const six = three * m.two; console.log(six, d, has('nope'))",
    ].join('\n'),
  )
  expect(second).toMatchObject({ stdout: '6 [ 7 ] false\n', stderr: '' })
  expect((await step('console.log(six, path.basename("/a/b"))')).stdout).toBe('6 b\n')
  const broken = await step("import { gone } from 'node:fs'\n\nnull.x")
  expect(broken.stderr).toContain('<run 4>:3')
  expect((await step("import x from 'no-such-package'")).stderr).toContain(
    "Cannot find package 'no-such-package'",
  )
  // Text that only looks like an import stays unchanged.
  const text = await step("const code = `\nimport a from 'b'\n`\nconsole.log(code.trim(), await 1)")
  expect(text.stdout).toBe("import a from 'b' 1\n")
  const typed = await agent.run(
    {
      type: 'script',
      language: 'typescript',
      source: [
        "import type { Stats } from 'node:fs'",
        "import { statSync as look, type BigIntStats } from 'node:fs'",
        "const s: Stats | BigIntStats = look('.'); console.log(s.isDirectory())",
      ].join('\n'),
    },
    {},
    {},
    KEEP,
  )
  expect(typed).toMatchObject({ stdout: 'true\n', stderr: '' })
  await stop(agent)
})

test.each([false, true])('Bash is the same shell in every run (cell: %s)', async (cell) => {
  const { agent, step } = await session('bash', cell)
  expect(await step('x=1; f() { echo "f $x $1"; }; mkdir d; cd d; false')).toMatchObject({
    stdout: '',
    stderr: '',
    exit: { exitCode: 1 },
  })
  expect(
    (await step('f a; basename "$PWD"; echo "$# $1 $E"', { argv: ['b c'], env: { E: 'v' } })).stdout,
  ).toBe('f 1 a\nd\n1 b c v\n')
  expect((await step('cat; ls -l /proc/self/fd | grep -c -- "->"', { stdin: 'in\n' })).stdout).toBe('in\n4\n')
  expect((await step('read x || echo none; nosuchcommand')).exit.exitCode).toBe(127)
  expect(agent.session.interpreterAlive()).toBe(true)
  expect((await step('exit 5')).exit.exitCode).toBe(5)
  expect(agent.session.interpreterAlive()).toBe(false)
  expect((await step('echo "[$x]"')).stdout).toBe('[]\n')
  await stop(agent)
})

test('Python awaits at the top level and runs !commands, like a notebook', async () => {
  const { agent, step } = await session('python', false)
  const lines = (...each: string[]): string => each.join('\n')
  const first = await step(
    lines(
      'import asyncio',
      'async def f(n):',
      '    await asyncio.sleep(0)',
      '    return n / 0 if n < 0 else n',
      'x = await f(20)',
      'await f(x + 1)',
    ),
  )
  expect(first).toMatchObject({ stderr: '', exit: { exitCode: 0, valueJson: '21' } })
  // The next run uses the same loop.
  const second = await step(lines('lock = asyncio.Lock()', 'await lock.acquire()', 'print(x)'))
  expect(second.stdout).toBe('20\n')
  const third = await step(lines('lock.release()', 'async with lock:', '    print(lock.locked())'))
  expect(third.stdout).toBe('True\n')
  const failed = await step(lines('1', 'await f(-1)'))
  expect(failed.exit.exitCode).toBe(1)
  expect(failed.stderr).toMatch(
    /^Traceback \(most recent call last\):\n {2}File "<run 4>", line 2, in <module>\n/,
  )
  expect(failed.stderr).not.toContain('asyncio/')
  const shell = await step(
    lines(
      'print("before")',
      `!echo "it's $((1 + 1))"; exit 3`,
      'if True:',
      '    !echo inside',
      "s = '''",
      '!no command',
      "'''",
      'print(_exit_code, len(s))',
    ),
  )
  expect(shell).toMatchObject({ stderr: '', stdout: "before\nit's 2\ninside\n0 13\n" })
  expect((await step(lines('!exit 3', '_exit_code'))).exit.valueJson).toBe('3')
  expect((await step(lines('x = = 1', '!echo no'))).stderr).toContain('SyntaxError')
  await stop(agent)
})

test.each([false, true])(
  'between runs the interpreter is stopped and everything else is dead (cell: %s)',
  async (cell) => {
    const { agent, step } = await session('python', cell)
    const ran = await step(`import os, subprocess, threading, sys
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
child = subprocess.Popen(["sh", "-c", "sleep ${SLEEP} & setsid sleep ${SLEEP} & wait"])
subprocess.Popen(["setsid", "sleep", "${SLEEP}"])
sys.stdout.write("unflushed")
os.getpid()`)
    expect(ran.stdout).toBe('unflushed')
    const pid = Number(ran.exit.valueJson)
    expect(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.slice(0, 1)).toBe('T')
    expect(childrenOf(pid).every(({ state }) => state === 'Z')).toBe(true)
    const alive = readdirSync('/proc').filter((name) => {
      try {
        return (
          /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(`sleep\x00${SLEEP}`)
        )
      } catch {
        return false
      }
    })
    expect(alive).toEqual([])
    expect((await step('child.wait(), threading.active_count()')).exit.valueJson).toBe('[-9,2]')
    await stop(agent)
  },
)

test('an interrupt ends the run, and the interpreter lives', async () => {
  const { agent, step } = await session('python', true)
  await step('import time\nx = 1')
  const up = Promise.withResolvers<void>()
  const running = agent.run(
    { type: 'script', language: 'python', source: 'print("up", flush=True)\ntime.sleep(60)' },
    { onOutput: () => up.resolve() },
    {},
    KEEP,
  )
  await up.promise
  agent.session.interrupt(20_000)
  const ran = await running
  expect(ran.exit.exitCode).toBe(130)
  expect(ran.stderr).toContain('KeyboardInterrupt')
  agent.session.interrupt(20_000)
  expect((await step('print(x)')).stdout).toBe('1\n')
  await stop(agent)
})

test.each([
  ['os._exit', 'import os\nos._exit(9)', { exitCode: 9, signal: null }],
  ['a signal', 'import os\nos.kill(os.getpid(), 11)', { exitCode: null, signal: 'SIGSEGV' }],
  [
    'a closed control pipe',
    'import os, time\nos.close(199)\ntime.sleep(60)',
    { exitCode: null, signal: 'SIGKILL' },
  ],
  [
    'nonsense on the control pipe',
    'import os, time\nos.write(199, b"x" * 60000)\ntime.sleep(60)',
    { exitCode: null, signal: 'SIGKILL' },
  ],
])('an interpreter that dies by %s is replaced by a fresh one', async (_name, source, exit) => {
  const { agent, step } = await session('python', true)
  await step('x = 1')
  expect((await step(source)).exit).toMatchObject(exit)
  expect(agent.session.interpreterAlive()).toBe(false)
  expect(await step('print("x" in globals())')).toMatchObject({
    stdout: 'False\n',
    exit: { interpreter: 'restarted' },
  })
  expect((await step('1')).exit.interpreter).toBe('kept')
  await stop(agent)
})

const PYTHON_SAYS = 'print("out", x)\nimport sys; print("err", file=sys.stderr)'
const NODE_SAYS = 'console.log("out", globalThis.x); console.error("err")'
const BASH_SAYS = 'echo out $x; echo err >&2'
test.each<[Language, string, string, Exit['interpreter'], string]>([
  ['python', 'os.close(1)', PYTHON_SAYS, 'kept', 'out 1\n'],
  ['python', 'os.close(0); os.close(2)', PYTHON_SAYS, 'kept', 'out 1\n'],
  ['python', 'import sys; sys.stdout.close(); sys.stderr.detach()', PYTHON_SAYS, 'kept', 'out 1\n'],
  ['python', 'n = os.open("/dev/null", 1); os.dup2(n, 1); os.dup2(n, 2)', PYTHON_SAYS, 'kept', 'out 1\n'],
  ['python', 'os.closerange(3, 198)', 'x = 2\n' + PYTHON_SAYS, 'restarted', 'out 2\n'],
  ['javascript', 'require("fs").closeSync(1)', NODE_SAYS, 'restarted', 'out undefined\n'],
  ['javascript', 'process.stderr.end()', NODE_SAYS, 'restarted', 'out undefined\n'],
  ['javascript', 'require("fs").closeSync(0)', NODE_SAYS, 'kept', 'out 1\n'],
  ['bash', 'exec 1>&-', BASH_SAYS, 'kept', 'out 1\n'],
  ['bash', 'exec 0<&- >/dev/null 2>&1', BASH_SAYS, 'kept', 'out 1\n'],
])('in %s, output arrives after a run that did %s', async (language, closes, says, interpreter, stdout) => {
  const { agent, step } = await session(language, false)
  const sets = { python: 'import os\nx = 1', javascript: 'var x = 1', typescript: '', bash: 'x=1' }[language]
  expect((await step(sets)).exit).toMatchObject({ exitCode: 0, interpreter: 'none' })
  expect((await step(closes)).exit).toMatchObject({ exitCode: 0, interpreter: 'kept' })
  expect(await step(says)).toMatchObject({ stdout, stderr: 'err\n', exit: { exitCode: 0, interpreter } })
  await stop(agent)
})

test('output that a run writes after closing its streams belongs to that run', async () => {
  const { agent, step } = await session('python', false)
  expect((await step('import os\nos.close(1)\nprint("late")')).stdout).toBe('late\n')
  expect((await step('print("next")')).stdout).toBe('next\n')
  await stop(agent)
})

test('clean keeps the interpreter with its files, or ends it', async () => {
  const { agent, step } = await session('python', true)
  await step('x = 1\nopen("f", "w").write("f")\nimport os')
  await agent.session.clean('interpreter')
  expect((await step('print(x, open("f").read())')).stdout).toBe('1 f\n')
  await agent.session.clean('files')
  expect(agent.session.interpreterAlive()).toBe(false)
  expect(await step('print("x" in globals(), open("f").read())')).toMatchObject({
    stdout: 'False f\n',
    exit: { interpreter: 'none' },
  })
  await agent.session.clean('none')
  expect((await step('import os\nprint(os.listdir())')).stdout).toBe("['main.py']\n")
  await vi.waitFor(() => expect(childrenOf(agent.child.pid!).length).toBeGreaterThan(0), 20_000)
  await stop(agent)
})

test('three languages keep their state side by side', async () => {
  const { agent, step } = await session('python', true)
  const other = (language: 'bash' | 'javascript', source: string): Promise<Ran> =>
    agent.run({ type: 'script', language, source }, {}, {}, KEEP)
  await step('x = 1')
  await other('bash', 'x=2')
  await other('javascript', 'const x = 3')
  expect((await step('print(x)')).stdout).toBe('1\n')
  expect((await other('bash', 'echo $x')).stdout).toBe('2\n')
  expect((await other('javascript', 'console.log(x)')).stdout).toBe('3\n')
  // A program that is not kept ends as usual and leaves the kept interpreters alone.
  expect((await agent.run({ type: 'command', shell: 'sleep 60 & echo on' })).stdout).toBe('on\n')
  expect((await step('print(x)')).stdout).toBe('1\n')
  await stop(agent)
})
