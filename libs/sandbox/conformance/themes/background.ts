/**
 * Sessions of scope `processes`: background processes and every file live on between executions, limits hold
 * at all times, and nothing outlives the session.
 */
import { randomBytes } from 'node:crypto'
import { StopReason, type Exit, type Program, type Sandbox } from '@cofferdam/contract'
import { afterEach, expect, test, vi } from 'vitest'
import { hostProcesses, type Harness, type SpecChange } from '../harness.ts'

const bash = (source: string): Program => ({ type: 'script', language: 'bash', source })
const python = (source: string): Program => ({ type: 'script', language: 'python', source })
/** Starts Python source as a background process whose command line contains `marker`. */
const job = (source: string, marker = 'job'): Program =>
  python(`
import subprocess, sys
subprocess.Popen([sys.executable, "-c", ${JSON.stringify(source)}, ${JSON.stringify(marker)}])`)
/** Python source that runs `source` once a later execution has written the file `go`. */
const onceTold = (source: string): string => `
import os, time
while not os.path.exists("go"):
    time.sleep(0.01)
${source}`

/** Answers on the loopback, ignores signals, and leaves something wherever a program can write. */
const SERVER = `
import os, signal, socket
for number in (1, 2, 3, 15):
    signal.signal(number, signal.SIG_IGN)
listener = socket.create_server(("127.0.0.1", 0))
for path in ("/tmp/left", "/dev/shm/left", os.path.expanduser("~/left")):
    open(path, "w").write("x")
open("port.part", "w").write(str(listener.getsockname()[1]))
os.rename("port.part", "port")
while True:
    peer, _ = listener.accept()
    peer.sendall(b"hello")
    peer.close()`
const ASK = `
import os, socket
print(socket.create_connection(("127.0.0.1", int(open("port").read()))).recv(10).decode())
print(sum(os.path.exists(path) for path in ("/tmp/left", "/dev/shm/left", os.path.expanduser("~/left"))))`

interface Turn {
  stdout: string
  stderr: string
  exit: Exit
  session: Sandbox['session']
}

export function background(h: Harness): void {
  const { capabilities, backend } = h
  const { sessions, languages, enforces, measures } = capabilities
  if (!sessions.includes('processes') || !languages.includes('python') || !languages.includes('bash')) return

  // An idle cell outlives its test. If each test has an owner of its own, sweep the cells here.
  afterEach(async () => {
    if (h.options.warmOwner === undefined) await backend.sweep(h.owner())
  })

  const newSession = (change: SpecChange = {}): SpecChange => ({
    reuse: 'session',
    session: { key: randomBytes(6).toString('hex'), scope: 'processes', idleMs: null },
    ...change,
  })

  async function turn(program: Program, change: SpecChange): Promise<Turn> {
    await using sandbox = await h.open(program, change)
    const { exit, stdout, stderr } = await h.run(sandbox, program)
    return { exit, stdout: stdout.toString(), stderr: stderr.toString(), session: sandbox.session }
  }

  /** Creates a file in a turn without a program. Background processes of the session see it. */
  async function tell(name: string, change: SpecChange): Promise<void> {
    await using sandbox = await h.open(bash(''), change)
    await sandbox.write([{ path: name, bytes: Buffer.from('') }])
    await sandbox.list(['*'], 1)
  }

  /** Waits for a file that a background process writes, by turns without a program. */
  const appears = (name: string, change: SpecChange): Promise<void> =>
    vi.waitFor(
      async () => {
        await using sandbox = await h.open(bash(''), change)
        expect((await sandbox.list([name], 1)).map(({ path }) => path)).toEqual([name])
      },
      { timeout: 120_000, interval: 50 },
    )

  async function end(change: SpecChange): Promise<void> {
    await using sandbox = await h.open(bash(''), change)
    sandbox.retire?.()
  }

  const isVisible =
    h.options.visibleOnHost ?? ['none', 'process', 'jail', 'container'].includes(backend.isolation)

  test('a background server answers later executions of every kind, until its session ends', async () => {
    const change = newSession()
    const marker = `server-${randomBytes(6).toString('hex')}`
    const first = await turn(job(SERVER, marker), change)
    expect(first.exit.exitCode, first.stderr).toBe(0)
    await appears('port', change)
    const kinds: Program[] = [
      python(ASK),
      { type: 'command', argv: ['python3', '-c', ASK] },
      bash(`python3 -c '${ASK}'`),
      { type: 'command', shell: `python3 -c '${ASK}'` },
    ]
    for (const program of kinds) {
      const asked = await turn(program, change)
      expect(asked, JSON.stringify(program)).toMatchObject({
        stdout: 'hello\n3\n',
        exit: { exitCode: 0 },
        session: { id: first.session?.id, fresh: false },
      })
    }
    if (isVisible) expect(await hostProcesses(marker)).not.toEqual([])
    await end(change)
    if (isVisible) expect(await hostProcesses(marker)).toEqual([])
    const next = await turn(bash('[ -e port ] || echo nothing'), change)
    expect([next.stdout, next.session?.fresh]).toEqual(['nothing\n', true])
  })

  test('keeps variables, jobs of the shell and late output, and says which interpreter ran', async () => {
    const change = newSession()
    const found: (string | undefined)[] = []
    const step = async (program: Program): Promise<string> => {
      const { exit, stdout } = await turn(program, change)
      found.push(exit.interpreter)
      return stdout
    }
    expect(await step(bash('count=1; (until [ -e go ]; do sleep 0.05; done; echo late; : >said) &'))).toBe('')
    expect(await step(python('count = 2'))).toBe('')
    expect(await step({ type: 'command', argv: ['echo', 'between'] })).toBe('between\n')
    await tell('go', change)
    await appears('said', change)
    expect(await step(python('print(count)'))).toBe('2\n')
    expect(await step(bash('echo $count; wait; echo done'))).toBe('late\n1\ndone\n')
    expect(await step(bash('exit 4'))).toBe('')
    expect(await step(bash('echo "[$count]"'))).toBe('[]\n')
    expect(found).toEqual(['none', 'none', undefined, 'kept', 'kept', 'kept', 'restarted'])
  })

  test('an interrupt ends a hung foreground command and leaves background processes', async () => {
    const change = newSession({ limits: { soft_timeout_ms: 1000, hard_timeout_ms: 61_000 } })
    await turn(job(SERVER), change)
    await appears('port', change)
    {
      const program = bash('echo ready; sleep 600')
      await using sandbox = await h.open(program, change)
      const { ended } = await h.start(sandbox, program, 'ready')
      await sandbox.interrupt()
      expect((await ended).exit.exitCode === 0).toBe(false)
    }
    expect((await turn(python(ASK), change)).stdout).toBe('hello\n3\n')
    expect((await turn(bash('true'), change)).exit.interpreter).toBe('restarted')
  })

  test('the hard deadline ends the whole session, background processes included', async () => {
    const change = newSession()
    const marker = `stubborn-${randomBytes(6).toString('hex')}`
    await turn(job(SERVER, marker), change)
    await appears('port', change)
    const program = bash(`trap '' INT TERM; echo ready; while :; do sleep 1; done`)
    const stop = new AbortController()
    {
      await using sandbox = await h.open(program, change)
      const { ended } = await h.start(sandbox, program, 'ready', { signal: stop.signal })
      stop.abort(new StopReason('hard_deadline'))
      await expect(ended).rejects.toBe(stop.signal.reason)
    }
    if (isVisible) expect(await hostProcesses(marker)).toEqual([])
    const next = await turn(bash('[ -e port ] || echo nothing'), change)
    expect(next).toMatchObject({
      stdout: 'nothing\n',
      session: { fresh: true },
      exit: { interpreter: 'none' },
    })
  })

  test('two sessions see nothing of each other', async () => {
    const marker = `secret-${randomBytes(6).toString('hex')}`
    const mine = newSession()
    await turn(job(SERVER, marker), mine)
    await appears('port', mine)
    const look = python(`
import os
seen = [p for p in ("/tmp/left", "/dev/shm/left", "port") if os.path.exists(p)]
for pid in os.listdir("/proc"):
    if pid.isdigit() and int(pid) != os.getpid():
        try:
            seen += [pid] if b"${marker}" in open("/proc/" + pid + "/cmdline", "rb").read() else []
        except OSError:
            pass
print(seen)`)
    const sameKey = { ...mine, tenantId: 'another' }
    for (const other of [newSession(), sameKey])
      expect(await turn(look, other)).toMatchObject({ stdout: '[]\n', session: { fresh: true } })
  })

  if (enforces.includes('memory'))
    test('memory is limited between executions, and a kill there is not the next program’s', async () => {
      const change = newSession()
      const taker = onceTold(`
if os.fork() == 0:
    held = []
    while True:
        held.append(bytearray(b"x") * (4 << 20))
os.wait()
open("killed", "w").close()`)
      await turn(job(taker), change)
      await tell('go', change)
      await appears('killed', change)
      const next = await turn(bash('echo on'), change)
      expect(next).toMatchObject({ stdout: 'on\n', exit: { exitCode: 0, oomKills: 0 } })
    })

  if (enforces.includes('pids'))
    test('processes are limited between executions, and the session still answers', async () => {
      const change = newSession({ limits: { pids: 24 } })
      const forker = onceTold(`
count = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        count += 1
    except OSError:
        open("refused.part", "w").write(str(count))
        os.rename("refused.part", "refused")
        time.sleep(0.05)`)
      await turn(bash('true'), change)
      await turn(job(forker), change)
      await tell('go', change)
      await appears('refused', change)
      const next = await turn(bash('read -r count <refused; echo $count'), change)
      expect(next.exit.exitCode, next.stderr).toBe(0)
      expect(Number(next.stdout)).toBeGreaterThan(0)
      // A cell's process limit has a reserve for the agent and its waiting processes. A program can use the
      // reserve if nothing waits.
      expect(Number(next.stdout)).toBeLessThan(24 + 8)
    })

  if (enforces.includes('disk'))
    test('disk is limited between executions', async () => {
      const change = newSession({ limits: { disk_mib: 8 } })
      const filler = onceTold(`
try:
    with open("large", "wb") as out:
        for _ in range(64):
            out.write(bytes(1 << 20))
            out.flush()
except OSError as error:
    os.truncate("large", 1 << 20)
    open("full", "w").write(str(error.errno))`)
      await turn(job(filler), change)
      await tell('go', change)
      await appears('full', change)
      expect((await turn(bash('cat full'), change)).stdout).toBe('28')
    })

  if (measures.includes('cpu_ms'))
    test('CPU time that background processes use between executions is charged to no execution', async () => {
      const change = newSession()
      const burner = onceTold(`
while time.process_time() < 1:
    pass
open("burnt", "w").close()
time.sleep(600)`)
      await turn(bash('true'), change)
      await turn(job(burner), change)
      await tell('go', change)
      await appears('burnt', change)
      const { exit } = await turn(bash('true'), change)
      expect(exit.usage.cpu_ms).toBeLessThan(900)
    })
}
