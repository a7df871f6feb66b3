/** The agent with real programs: values, files, all kinds of ends, and attacks on the agent. */
import { readFileSync, readdirSync } from 'node:fs'
import type { Program } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { languageOf } from '../../src/guest/index.ts'
import { openLab, stop, type Lab } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

const python = (source: string, argv?: string[]): Program => ({
  type: 'script',
  language: 'python',
  source,
  ...(argv === undefined ? {} : { argv }),
})
const script = (language: 'javascript' | 'typescript' | 'bash', source: string): Program => ({
  type: 'script',
  language,
  source,
})

/** Live host processes whose command line contains the text, as a check from outside the agent. */
function processesWith(text: string): string[] {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return false
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(text)
    } catch {
      return false
    }
  })
}

test.each([
  ['a list', '[1, "é", None, True, 2.5, {"a": []}]', '[1,"\\u00e9",null,true,2.5,{"a":[]}]'],
  ['a call', 'def f(): return {"n": 2 ** 70}\nf()', '{"n":1180591620717411303424}'],
  ['a tuple and odd text', 'x = ("\\n\\"", "🦆")\nx', '["\\u000a\\"","\\ud83e\\udd86"]'],
  ['a library object', 'from decimal import Decimal\nDecimal("1.5")', '{"repr":"Decimal(\'1.5\')"}'],
  ['nothing for None', 'print(1)\nNone', undefined],
  ['nothing for print', 'print(1)', undefined],
  ['nothing for a statement', 'x = 3', undefined],
  ['nothing for not-a-number', 'float("nan")', undefined],
  ['nothing for a set', '{1, 2}', undefined],
  ['nothing for a thing that contains itself', 'x = []\nx.append(x)\nx', undefined],
  ['nothing for something large', '"x" * 40000', undefined],
  [
    'nothing for an own class, whose methods do not run',
    'class A(dict):\n    def __repr__(self): print("ran"); return "A"\n    __iter__ = __str__ = __repr__\nA(a=1)',
    undefined,
  ],
  ['nothing after an error', 'import atexit\natexit.register(lambda: 1/0)\n1 / 0', undefined],
])('reports the value of a Python program: %s', async (_name, source, expected) => {
  const { exit, stdout } = await lab.once(python(source))
  expect(exit.valueJson).toBe(expected)
  expect(stdout).not.toContain('ran')
})

test.each([
  ['javascript', 'module.exports = { a: [1, null, "x"] }', '{"a":[1,null,"x"]}'],
  ['javascript', 'export default [1]', '[1]'],
  ['javascript', 'module.exports = { get a() { console.log("ran"); return 1 } }', undefined],
  ['javascript', 'exports.f = () => 1', undefined],
  ['javascript', 'console.log(1)', undefined],
  ['javascript', 'module.exports = { a: 1 }; process.exit(2)', undefined],
  ['typescript', 'export default { n: 1 as number }', '{"n":1}'],
  ['typescript', 'enum A { x, y }\nexport default { y: A.y }', '{"y":1}'],
  ['typescript', 'const x = <any>"1"\nexport default <string[]>[<string>(x)]', '["1"]'],
  ['typescript', 'namespace N { export const z = 3 }\nmodule.exports = [N.z]', '[3]'],
] as const)('%s value of %s', async (language, source, expected) => {
  const { exit, stdout, stderr } = await lab.once(script(language, source))
  expect(exit.valueJson).toBe(expected)
  expect({ stdout: stdout.replace('1\n', ''), stderr }).toEqual({ stdout: '', stderr: '' })
})

test('runs TypeScript that needs transforming, with correct lines in the trace', async () => {
  const source = `enum Level { low, high }
class Point { constructor(public x: number, private y = 2) {} sum() { return this.x + this.y } }
console.log(Level[1], new Point(3).sum())
throw new Error('line four')`
  const { stdout, stderr, exit } = await lab.once(script('typescript', source))
  expect(stdout).toBe('high 5\n')
  expect(stderr).toContain('main.ts:4')
  expect(stderr).not.toContain('Warning')
  expect(exit.exitCode).toBe(1)
})

test('runs a program of another language than its waiting interpreter’s', async () => {
  const agent = await lab.start('python')
  const { stdout } = await agent.run(script('javascript', 'console.log(6 * 7)'))
  expect(stdout).toBe('42\n')
  await stop(agent)
})

test('starts a fresh interpreter for variables that are read only at start', async () => {
  const agent = await lab.start('python')
  const { stdout } = await agent.run(
    python('import sys, os\nprint(hash("a"), sys.flags.optimize, os.environ["PYTHONHASHSEED"])'),
    {},
    { PYTHONHASHSEED: '0', PYTHONOPTIMIZE: '2' },
  )
  expect(stdout).toMatch(/^-?\d+ 2 0\n$/)
  await stop(agent)
})

test('keeps a caller’s own main.py', async () => {
  const { stdout } = await lab.once(python('import main, sys\nprint(main.x, sys.argv[0])'), {
    files: [{ path: 'main.py', bytes: Buffer.from('x = "yours"') }],
  })
  expect(stdout).toBe('yours program.py\n')
})

test('runs commands: argv, shell, not found, not executable', async () => {
  expect((await lab.once({ type: 'command', argv: ['echo', '$HOME', '*'] })).stdout).toBe('$HOME *\n')
  expect((await lab.once({ type: 'command', shell: 'echo $((1+2)); exit 3' })).exit.exitCode).toBe(3)
  expect((await lab.once({ type: 'command', argv: ['no-such-thing'] })).exit.exitCode).toBe(127)
  const refused = await lab.once(
    { type: 'command', argv: ['./a'] },
    { files: [{ path: 'a', bytes: Buffer.from('x') }] },
  )
  expect(refused.exit.exitCode).toBe(126)
  const large = `: ${'x'.repeat(300_000)}\necho done`
  expect((await lab.once({ type: 'command', shell: large })).stdout).toBe('done\n')
})

/** Seconds that identify a test's own process among all that sleep on this machine. */
let slept = 0
const sleepSeconds = (): string => `98760${++slept}.${process.pid}`

test.each([
  ['a child in the background', 'sleep $S & echo on'],
  ['a daemon with a session of its own that holds stdout', 'setsid sleep $S & echo on'],
  ['a daemon that ignores every signal', `(trap '' INT TERM HUP; setsid sleep $S) & echo on`],
  ['a stopped child', 'sleep $S & kill -STOP $!; echo on'],
])('kills a process that a program leaves: %s', async (_name, shell) => {
  const seconds = sleepSeconds()
  const agent = await lab.start('none')
  const { stdout, exit } = await agent.run({ type: 'command', shell: `S=${seconds}; ${shell}` })
  expect({ stdout, exitCode: exit.exitCode }).toEqual({ stdout: 'on\n', exitCode: 0 })
  expect(processesWith(seconds)).toEqual([])
  await stop(agent)
})

test('kills everything if its channel closes during a run', async () => {
  const seconds = sleepSeconds()
  const agent = await lab.start('none')
  const program: Program = {
    type: 'command',
    shell: `(trap '' TERM; setsid sleep ${seconds}) & echo up; sleep ${seconds}`,
  }
  const running = agent.run(program)
  running.catch(() => {})
  await vi.waitFor(() => expect(processesWith(`sleep\x00${seconds}`).length).toBe(2), 20_000)
  await stop(agent)
  expect(processesWith(`sleep\x00${seconds}`)).toEqual([])
  await expect(running).rejects.toMatchObject({ code: 'sandbox_lost' })
})

test('sends SIGINT at a soft stop, then SIGTERM after half of the grace', async () => {
  const agent = await lab.start('none')
  const started = Promise.withResolvers<void>()
  const running = agent.run(
    {
      type: 'command',
      shell: `trap 'echo int' INT; trap 'echo term; exit 9' TERM; echo up; while :; do sleep 0.05; done`,
    },
    { onOutput: (_stream, chunk) => (Buffer.from(chunk).includes('up') ? started.resolve() : undefined) },
  )
  await started.promise
  agent.session.interrupt(600)
  const { stdout, exit } = await running
  expect(stdout).toBe('up\nint\nterm\n')
  expect(exit.exitCode).toBe(9)
  await stop(agent)
})

test('counts output beyond the cap and never blocks the program', async () => {
  const { exit } = await (async () => {
    const agent = await lab.start('none')
    const ran = await agent.run(
      { type: 'command', shell: 'head -c 200000000 /dev/zero; head -c 5000 /dev/zero >&2' },
      { maxOutputBytes: { stdout: 1000, stderr: 10_000 } },
    )
    expect(ran.stdout.length).toBe(1000)
    await stop(agent)
    return ran
  })()
  expect(exit.outputBytes).toEqual({ stdout: 200_000_000, stderr: 5000 })
  expect(exit.outputDropped).toEqual({ stdout: true, stderr: false })
})

test('reports the exit of a program that closes its streams or leaves input unread', async () => {
  expect((await lab.once({ type: 'command', shell: 'exec <&- >&- 2>&-; exit 5' })).exit.exitCode).toBe(5)
  const unread = await lab.once({ type: 'command', shell: 'exit 6' }, { stdin: 'x'.repeat(1 << 20) })
  expect(unread.exit.exitCode).toBe(6)
})

test.each([
  ['garbage', `os.write(199, b'garbage' * 5000)`],
  ['a huge length', `os.write(199, b'V\\xff\\xff\\xff\\xff' + b'x' * 100)`],
  ['not JSON', `os.write(199, b'V\\x03\\x00\\x00\\x00{{{')`],
  ['its end', `os.close(199)`],
])('drops only the value of a program that writes %s to the control pipe', async (_name, attack) => {
  const { exit, stdout } = await lab.once(python(`import os\n${attack}\nprint("on")\n[1, 2]`))
  expect(stdout).toBe('on\n')
  expect(exit).toMatchObject({ exitCode: 0 })
  expect(exit.valueJson).toBeUndefined()
})

test('ignores frames that a program forges on every descriptor', async () => {
  const forged = `import os, struct
x = b'{"code":0}'
for fd in range(3, 256):
    try: os.write(fd, b'X' + struct.pack('<I', len(x)) + x)
    except OSError: pass
os._exit(3)`
  expect((await lab.once(python(forged))).exit.exitCode).toBe(3)
})

test('gives a program no descriptor of the worker', async () => {
  const agent = await lab.start('none')
  const { stdout } = await agent.run({ type: 'command', argv: ['ls', '-l', '/proc/self/fd'] })
  const targets = stdout.split('\n').filter((line) => line.includes('->'))
  // stdin, stdout, stderr and the listing itself.
  expect(targets.length).toBe(4)
  await stop(agent)
})

test('lists by globs, reads and removes files, and follows no link', async () => {
  const agent = await lab.start('none')
  await agent.session.write([
    { path: 'a.txt', bytes: Buffer.from('a') },
    { path: 'd/b.txt', bytes: Buffer.from('bb') },
    { path: 'd/e/c.bin', bytes: Buffer.from([0, 255]) },
  ])
  await agent.run({
    type: 'command',
    shell: 'ln -s /etc/passwd link; ln -s / root; mkfifo pipe; echo secret > d/own; chmod 600 d/own',
  })
  const names = async (...globs: string[]): Promise<string[]> =>
    (await agent.session.list(globs, 100)).map((e) => e.path)
  expect(await names('**')).toEqual(['a.txt', 'd/b.txt', 'd/own', 'd/e/c.bin'])
  expect(await names('*.txt')).toEqual(['a.txt'])
  expect(await names('**/*.txt', 'd/?wn')).toEqual(['a.txt', 'd/b.txt', 'd/own'])
  expect(await agent.session.list(['**'], 2)).toHaveLength(2)
  expect(Buffer.from(await agent.session.read('d/own', 100)).toString()).toBe('secret\n')
  for (const path of ['link', 'root/etc/passwd', 'pipe', 'd'])
    await expect(agent.session.read(path, 1000), path).rejects.toMatchObject({ code: 'invalid_request' })
  await expect(agent.session.read('../x', 10)).rejects.toMatchObject({ code: 'invalid_request' })
  await expect(agent.session.read('d/b.txt', 1)).rejects.toMatchObject({ code: 'payload_too_large' })
  await agent.session.remove('d')
  expect(await names('**')).toEqual(['a.txt'])
  await stop(agent)
})

test('ends an expensive search early, returns what it found, and counts the CPU time', async () => {
  const agent = await lab.start('none')
  // 1,500 names of 200 bytes, matched against 32 patterns full of wildcards: beyond the work limit.
  const shell = 'touch 0found; mkdir z; cd z; printf "%0200d\\n" $(seq 1500) | xargs touch'
  await agent.run({ type: 'command', shell })
  const before = await agent.session.usage()
  const globs = Array.from({ length: 32 }, () => `**${'?*0'.repeat(100)}x`)
  const listed = await agent.session.list(['0found', ...globs], 100)
  expect(listed.partial).toBe(true)
  expect(listed.map(({ path }) => path)).toEqual(['0found'])
  expect((await agent.session.usage()).cpu_ms ?? 0).toBeGreaterThan((before.cpu_ms ?? 0) + 50)
  // Nothing below the folder can match, so it is not entered.
  expect((await agent.session.list(['0*'], 100)).partial).toBe(undefined)
  await stop(agent)
})

test('spends less than 40 microseconds of CPU time per file, and skips unnecessary folders', async () => {
  const agent = await lab.start('none')
  const folders = 100
  const made = await agent.run({
    type: 'command',
    shell: `python3 - <<'E'
import os
for n in range(${folders}):
    os.makedirs('src/package-%d/lib' % n)
    for m in range(100):
        os.mknod('src/package-%d/lib/module-%d.js' % (n, m))
os.mknod('src/package-7/lib/a.test.js')
E`,
  })
  expect(made.stderr).toBe('')
  const cpuMs = (): number => {
    const stat = readFileSync(`/proc/${agent.child.pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // User and system time, in hundredths of a second (proc(5)).
    return 10 * (Number(fields[11]) + Number(fields[12]))
  }
  const listed = async (...globs: string[]): Promise<{ paths: string[]; ms: number }> => {
    const before = cpuMs()
    const paths = (await agent.session.list(globs, 100)).map(({ path }) => path)
    return { paths, ms: cpuMs() - before }
  }
  const names = [
    '*',
    'test/**',
    '**/__tests__/**',
    '**/test*.py',
    '**/*.test.*',
    '**/*.spec.*',
    '**/*_test.go',
  ]
  const wide = await listed(...names)
  expect(wide.paths).toEqual(['src/package-7/lib/a.test.js'])
  expect(wide.ms).toBeLessThan(folders * 100 * 0.04)
  for (const narrow of [await listed(...names, '!**/package-*'), await listed('*', 'lib/**')]) {
    expect(narrow.paths).toEqual([])
    // At most two ticks of that clock, so practically nothing.
    expect(narrow.ms).toBeLessThanOrEqual(20)
  }
  await stop(agent)
})

test('overwrites a link without following it', async () => {
  const outside = lab.folder()
  const agent = await lab.start('none')
  await agent.run({ type: 'command', shell: `ln -s ${outside}/target link; ln -s ${outside} dir` })
  await agent.session.write([{ path: 'link', bytes: Buffer.from('in') }])
  expect(Buffer.from(await agent.session.read('link', 10)).toString()).toBe('in')
  await agent.session.write([{ path: 'dir/x', bytes: Buffer.from('in') }])
  await expect(agent.session.list(['**'], 10)).rejects.toMatchObject({ code: 'invalid_request' })
  expect(readdirSync(outside)).toEqual([])
  await stop(agent)
})

test('keeps a fresh interpreter waiting after each run of a session', async () => {
  const agent = await lab.start('python', { cell: true })
  for (let n = 0; n < 3; n++) {
    const { stdout } = await agent.run(
      python(`import os\nopen("n", "a").write("x")\nprint(os.path.getsize("n"))`),
    )
    expect(stdout).toBe(`${n + 1}\n`)
  }
  await stop(agent)
})

test('reports why an interpreter did not start', async () => {
  const agent = await lab.start('javascript', { node: '/no/such/node', hold: true })
  agent.session.release()
  await expect(agent.session.ready()).rejects.toMatchObject({
    code: 'sandbox_open_failed',
    details: { said: expect.stringContaining('command not found') as string },
  })
  await stop(agent)
})

test('reports usage of a running program and afterwards of the last one', async () => {
  const agent = await lab.start('python')
  const program = python(
    'import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass',
  )
  const running = agent.run(program)
  const { exit } = await running
  const usage = await agent.session.usage()
  expect(exit.usage.cpu_ms).toBeGreaterThan(150)
  expect(usage).toEqual(exit.usage)
  await stop(agent)
})

test('finds the interpreter that a program needs', () => {
  expect(languageOf(python(''))).toBe('python')
  expect(languageOf({ type: 'command', argv: ['x'] })).toBe('none')
})
