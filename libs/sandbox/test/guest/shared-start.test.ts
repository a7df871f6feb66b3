/**
 * Agent and interpreter share one start of Python: what the program sees of that, and what it cannot reach.
 */
import type { Program } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { optionsAsGiven } from '../../src/guest/agent-argv.ts'
import { sharedStart } from '../../src/guest/index.ts'
import { openLab, sharing, stop, type Lab } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

const python = (source: string): Program => ({ type: 'script', language: 'python', source })
const common = { python: '/usr/bin/python3', guestDir: '/opt/cofferdam' } as const

test('a shared start is only for a sandbox with a single Python program', () => {
  for (const other of [
    { language: 'bash' },
    { language: 'javascript' },
    { language: 'python', cell: true },
  ] as const)
    expect(sharedStart({ ...common, ...other })).toBeNull()
  for (const name of ['PYTHONPATH', 'PYTHONINSPECT'])
    expect(sharedStart({ ...common, language: 'python', env: { [name]: '1' } })).toBeNull()
})

test('a shared start passes no agent option in what the program can read', () => {
  const start = sharedStart({
    ...common,
    language: 'python',
    ownDisk: true,
    rlimits: { fsize: 7 },
    hold: true,
  })
  expect(start?.argv).toEqual(['/usr/bin/python3', 'main.py'])
  expect(Object.keys(start?.env ?? {})).toEqual(['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ', 'PYTHONPATH'])
  // The options lack the default limit of open files, because the caller of a shared start sets it.
  expect(start?.options).toEqual(
    optionsAsGiven({ ...common, language: 'python', ownDisk: true, rlimits: { fsize: 7 } }),
  )
})

sharing.describe('as the init of a namespace', () => {
  test('the program’s interpreter is a fork of the first process, as its environment shows', async () => {
    const agent = await lab.startShared({ variables: { PWD: '/elsewhere', LEFT: 'over' } })
    const { stdout } = await agent.run(
      python(
        'import os\nprint(b"LEFT=over" in open("/proc/self/environ", "rb").read(), os.getpid(), os.getppid(), sorted(os.environ))',
      ),
    )
    expect(stdout).toBe("True 2 1 ['HOME', 'LANG', 'PATH', 'TMPDIR', 'TZ']\n")
    await stop(agent)
  })

  test('the interpreter contains no module, object, class, file or word of the agent', async () => {
    const agent = await lab.startShared({ ownDisk: true })
    const { stdout, stderr } = await agent.run(
      python(`import gc, os, sys
gc.unfreeze()
names = {m for m in sys.modules if "cofferdam" in m}
made = {type(o).__module__ for o in gc.get_objects()} | {getattr(o, "__module__", None) for o in gc.get_objects() if isinstance(o, type)}
def below(kind):
    for one in type.__subclasses__(kind):
        yield one
        yield from below(one)
classes = {c.__name__ for c in below(object)} & {"Agent", "Channel", "Options", "Warm", "Meters", "struct_rusage", "PyCSimpleType"}
paths = [p for p in list(sys.path) + list(sys.path_importer_cache) if "/guest" in p]
fds = sorted(int(f) for f in os.listdir("/proc/self/fd"))[:-1]
print(names, sorted(str(m) for m in made if "cofferdam_agent" in str(m) or "cofferdam_start" in str(m)), classes, paths, [f for f in fds if f > 2])`),
    )
    expect({ stdout, stderr }).toEqual({ stdout: 'set() [] set() [] []\n', stderr: '' })
    await stop(agent)
  })

  test('the program can open or trace neither the agent’s memory nor its channel', async () => {
    const agent = await lab.startShared()
    const { stdout } = await agent.run(
      python(`import ctypes, os
for path in ("/proc/1/mem", "/proc/1/fd", "/proc/1/environ", "/proc/1/maps", "/proc/1/root"):
    try: print(path, os.listdir(path) if path.endswith(("fd", "root")) else open(path, "rb").read(1))
    except OSError as e: print(e.errno)
print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))
print(open("/proc/self/status").read().count("NoNewPrivs:\\t1"), os.getsid(0) == os.getpid(), open("/proc/self/oom_score_adj").read().strip())`),
    )
    expect(stdout).toBe('13\n13\n13\n13\n13\n-1\n1 True 500\n')
    await stop(agent)
  })

  test('limits apply to the program, and not to the agent', async () => {
    const agent = await lab.startShared({ rlimits: { nofile: 64, fsize: 4096 } })
    const { stdout } = await agent.run(
      python('import resource as r\nprint(r.getrlimit(r.RLIMIT_NOFILE), r.getrlimit(r.RLIMIT_FSIZE))'),
    )
    expect(stdout).toBe('(64, 64) (4096, 4096)\n')
    await agent.session.write([{ path: 'large', bytes: Buffer.alloc(10_000) }])
    expect((await agent.session.read('large', 20_000)).length).toBe(10_000)
    await stop(agent)
  })

  test('the interpreter imports a preload once it is released', async () => {
    const agent = await lab.startShared({ preload: ['decimal'] })
    const { stdout } = await agent.run(
      python(
        'import sys, os\nprint("decimal" in sys.modules, sorted(k for k in os.environ if "THREADS" in k or "COFFERDAM" in k))',
      ),
    )
    expect(stdout).toBe('True []\n')
    await stop(agent)
  })

  test('the agent reports a failed preload by its name', async () => {
    await expect(lab.startShared({ preload: ['nowhere_at_all'] })).rejects.toMatchObject({
      code: 'sandbox_open_failed',
      details: { said: expect.stringContaining('nowhere_at_all') as string },
    })
  })
})
