/** Sessions that keep processes: what lives on between runs, what becomes of its output, what may hang. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Language, Program } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { isRunning, pidIn } from './background-model.ts'
import { openLab, stop, type Agent, type Lab, type Ran } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

const KEEP = { keepInterpreter: true, keepProcesses: true }
/** Seconds that no other process on this machine sleeps. */
const SLEEP = `9876.${process.pid}`
const HELD_MAX = 64 * 1024
/** A pipe's capacity: what a process can write before anybody reads. */
const PIPE = 64 * 1024

interface Session {
  agent: Agent
  bash(source: string): Promise<Ran>
  python(source: string): Promise<Ran>
  command(...argv: string[]): Promise<Ran>
  /** Starts a script and resolves when it has printed `ready`. */
  begin(language: Language, source: string): Promise<{ ended: Promise<Ran> }>
  at(name: string): string
  /** Waits for a file that a background process creates. */
  appears(name: string): Promise<void>
}

async function open(): Promise<Session> {
  const agent = await lab.start('bash', { cell: true })
  const run = async (program: Program, onOutput = (): void => {}): Promise<Ran> => {
    const ran = await agent.run(program, { onOutput }, {}, KEEP)
    await agent.session.clean('processes')
    return ran
  }
  const script = (language: Language) => (source: string) => run({ type: 'script', language, source })
  const at = (name: string): string => join(agent.work, name)
  return {
    agent,
    bash: script('bash'),
    python: script('python'),
    command: (...argv) => run({ type: 'command', argv }),
    async begin(language, source) {
      const ready = Promise.withResolvers<void>()
      const ended = run({ type: 'script', language, source }, () => ready.resolve())
      await Promise.race([ready.promise, ended])
      return { ended }
    },
    at,
    appears: (name) =>
      vi.waitFor(() => expect(existsSync(at(name)), name).toBe(true), { timeout: 20_000, interval: 5 }),
  }
}

const SERVER = `import socket, os
s = socket.socket(socket.AF_UNIX); s.bind("server"); s.listen()
open("pid", "w").write(str(os.getpid()))
while True:
    c, _ = s.accept(); c.sendall(b"hello"); c.close()`
const ASK = `import socket
c = socket.socket(socket.AF_UNIX); c.connect("server")
print(c.recv(10).decode())`

test('a background server answers later runs of every kind, and its files can be read', async () => {
  const s = await open()
  await s.agent.session.write([{ path: 'server.py', bytes: Buffer.from(SERVER) }])
  await s.bash('count=1; python3 server.py & disown')
  await s.appears('pid')
  expect((await s.python(ASK)).stdout).toBe('hello\n')
  expect((await s.command('python3', '-c', ASK)).stdout).toBe('hello\n')
  expect(await s.bash(`echo $count; python3 -c '${ASK}'`)).toMatchObject({
    stdout: '1\nhello\n',
    exit: { exitCode: 0, interpreter: 'kept', processesLeft: 0 },
  })
  expect((await s.agent.session.list(['*'], 10)).map(({ path }) => path)).toContain('pid')
  await s.agent.session.write([{ path: 'note', bytes: Buffer.from('n') }])
  expect(Buffer.from(await s.agent.session.read('note', 10)).toString()).toBe('n')
  expect((await s.command('cat', 'note')).stdout).toBe('n')
  const pid = pidIn(s.at('pid'))
  expect(isRunning(pid)).toBe(true)
  await stop(s.agent)
  expect(isRunning(pid)).toBe(false)
})

test('a run ends when its shell says so, and late output comes first in the next run', async () => {
  const s = await open()
  const first = await s.bash(
    'echo now; (while [ ! -e go ]; do sleep 0.01; done; echo late; echo wrong >&2; : >said) &',
  )
  expect(first).toMatchObject({ stdout: 'now\n', stderr: '', exit: { exitCode: 0 } })
  writeFileSync(s.at('go'), '')
  await s.appears('said')
  expect((await s.python('print("mine")')).stdout).toBe('mine\n')
  expect((await s.command('echo', 'own')).stdout).toBe('own\n')
  expect(await s.bash('echo next')).toMatchObject({ stdout: 'late\nnext\n', stderr: 'wrong\n' })
  expect((await s.bash('echo again')).stdout).toBe('again\n')
  await stop(s.agent)
})

test('a process that writes between runs is not blocked, and the next run gets 64 KiB of it', async () => {
  const s = await open()
  await s.bash('(seq 1000000 1090000; : >said) &')
  // 720 KB: far more than a pipe holds.
  await s.appears('said')
  const { stdout } = await s.bash('echo next')
  expect(stdout.endsWith('1090000\nnext\n')).toBe(true)
  expect(stdout.length).toBeLessThanOrEqual(HELD_MAX + PIPE + 10)
  await stop(s.agent)
})

test('what a command’s processes write after its end is dropped, and never blocks them', async () => {
  const s = await open()
  const ran = await s.command(
    'sh',
    '-c',
    'echo own; (while [ ! -e go ]; do sleep 0.01; done; seq 1000000 1050000; : >said) &',
  )
  expect(ran.stdout).toBe('own\n')
  writeFileSync(s.at('go'), '')
  await s.appears('said')
  for (const other of [await s.command('echo', 'next'), await s.bash('echo next')])
    expect(other.stdout).toBe('next\n')
  await stop(s.agent)
})

test('a shell that exits leaves its jobs, whose output the next shell’s run shows', async () => {
  const s = await open()
  await s.bash(`sleep ${SLEEP} & echo $! >pid
    (while [ ! -e go ]; do sleep 0.01; done; echo late; : >said) &`)
  const pid = pidIn(s.at('pid'))
  expect((await s.bash('exit 3')).exit).toMatchObject({ exitCode: 3, interpreter: 'kept' })
  expect(isRunning(pid)).toBe(true)
  writeFileSync(s.at('go'), '')
  await s.appears('said')
  expect(await s.bash('echo next')).toMatchObject({
    stdout: 'late\nnext\n',
    exit: { interpreter: 'restarted' },
  })
  await stop(s.agent)
  expect(isRunning(pid)).toBe(false)
})

test('an interrupt ends a hung foreground command, and a background job lives on', async () => {
  const s = await open()
  await s.bash(`sleep ${SLEEP} & echo $! >pid`)
  // Between the fork and the start of its program, Bash makes a background job ignore SIGINT. Wait for the
  // program.
  const nameOf = (pid: number): string => readFileSync(`/proc/${pid}/comm`, 'utf8')
  await vi.waitFor(() => expect(nameOf(pidIn(s.at('pid')))).toBe('sleep\n'), { timeout: 20_000, interval: 5 })
  const { ended } = await s.begin('bash', `echo ready; sleep ${SLEEP}`)
  s.agent.session.interrupt(60_000)
  expect((await ended).exit.exitCode === 0).toBe(false)
  expect(isRunning(pidIn(s.at('pid')))).toBe(true)
  expect((await s.bash('echo next')).exit.interpreter).toBe('restarted')
  await stop(s.agent)
})

test('a command that ignores the interrupt ends with its process group, and files stay', async () => {
  const s = await open()
  await s.bash(`sleep ${SLEEP} & echo $! >grouped; setsid sleep ${SLEEP} & echo $! >own`)
  await s.python('x = 1')
  const { ended } = await s.begin(
    'bash',
    `echo ready; python3 -c '
import os, signal, time
for number in (2, 15): signal.signal(number, signal.SIG_IGN)
open("stubborn", "w").write(str(os.getpid()))
time.sleep(600)'`,
  )
  await s.appears('stubborn')
  s.agent.session.interrupt(200)
  expect((await ended).exit).toMatchObject({ signal: 'SIGTERM' })
  const isGone = (name: string): void => expect(isRunning(pidIn(s.at(name))), name).toBe(false)
  await vi.waitFor(() => ['grouped', 'stubborn'].forEach(isGone), { timeout: 20_000, interval: 5 })
  expect(isRunning(pidIn(s.at('own')))).toBe(true)
  expect(await s.bash('cat own >/dev/null && echo files')).toMatchObject({
    stdout: 'files\n',
    exit: { interpreter: 'restarted' },
  })
  expect((await s.python('print(x)')).stdout).toBe('1\n')
  await stop(s.agent)
  isGone('own')
})

test('a thread of a kept Python goes on between runs, and its reports end no run', async () => {
  const s = await open()
  await s.python(`import os, threading, time
def work():
    while not os.path.exists("go"): time.sleep(0.005)
    for n in range(20000): os.write(199, b"P0.5 working\\n")
    open("said", "w").close()
    while not os.path.exists("stop"):
        os.write(199, b"P0.5 working\\n"); time.sleep(0.001)
threading.Thread(target=work, daemon=True).start()`)
  writeFileSync(s.at('go'), '')
  await s.appears('said')
  expect(await s.python('print("on")')).toMatchObject({ stdout: 'on\n', exit: { interpreter: 'kept' } })
  writeFileSync(s.at('stop'), '')
  await stop(s.agent)
})

test('a job that floods the shell’s control pipe ends its runs at most, and can be killed', async () => {
  const s = await open()
  await s.bash(`shell=$$; (while :; do echo junk; done >/proc/$shell/fd/199) & echo $! >pid`)
  const hit = await s.bash('echo one')
  expect(['kept', 'restarted']).toContain(hit.exit.interpreter)
  await s.command('sh', '-c', 'kill -9 $(cat pid) || true')
  await s.bash('true')
  expect((await s.bash('echo two')).stdout).toBe('two\n')
  await stop(s.agent)
})

test('a shell that closes every control descriptor of its own still serves the next run', async () => {
  const s = await open()
  await s.bash('exec 195>&- 196>&- 198<&- 199>&-')
  expect((await s.bash('echo on')).stdout).toBe('on\n')
  await s.python('import os\nos.closerange(195, 200)')
  expect((await s.python('print("on")')).exit).toMatchObject({ exitCode: 0, interpreter: 'restarted' })
  await stop(s.agent)
})

test('a shell that a job stopped between runs continues with the next one', async () => {
  const s = await open()
  await s.bash('x=1; (while [ ! -e go ]; do sleep 0.01; done; kill -STOP $$; : >said) &')
  writeFileSync(s.at('go'), '')
  await s.appears('said')
  expect(await s.bash('echo $x')).toMatchObject({ stdout: '1\n', exit: { interpreter: 'kept' } })
  await stop(s.agent)
})

test('a run whose shell is stopped gets no answer, and the end of the channel ends everything', async () => {
  const s = await open()
  const { ended } = await s.begin(
    'bash',
    'echo $$ >pid; (while [ ! -e go ]; do sleep 0.01; done; kill -STOP $$) & echo ready; wait; echo after',
  )
  writeFileSync(s.at('go'), '')
  ended.catch(() => {})
  const shell = pidIn(s.at('pid'))
  await vi.waitFor(
    () => expect(readFileSync(`/proc/${shell}/stat`, 'latin1').split(' ')[2]).toBe('T'),
    20_000,
  )
  await stop(s.agent)
  await expect(ended).rejects.toMatchObject({ code: 'sandbox_lost' })
  expect(isRunning(shell)).toBe(false)
})

test('a job that writes without end slows nobody down, during runs and between them', async () => {
  const s = await open()
  await s.bash('yes flood & echo $! >pid')
  for (let n = 0; n < 3; n += 1) expect((await s.python(`print(${n})`)).stdout).toBe(`${n}\n`)
  const shown = await s.bash('echo mine')
  expect(shown.stdout).toContain('mine\n')
  expect(shown.exit.outputBytes.stdout).toBeLessThan(8 << 20)
  await s.bash('kill -9 $(cat pid); wait')
  await s.bash('true')
  expect((await s.bash('echo quiet')).stdout).toBe('quiet\n')
  await stop(s.agent)
})

// Only root may list the agent's descriptors.
needs('root').it('background processes hold a bounded number of the agent’s descriptors', async () => {
  const s = await open()
  const held = async (programs: number): Promise<number> => {
    for (let n = 0; n < programs; n += 1) await s.command('sh', '-c', `sleep ${SLEEP} & echo $! >>pids`)
    return readdirSync(`/proc/${s.agent.child.pid}/fd`).length
  }
  const before = await held(0)
  // Two pipes each.
  expect((await held(20)) - before).toBe(40)
  expect((await held(20)) - before).toBe(64)
  const pids = readFileSync(s.at('pids'), 'utf8').trim().split('\n').map(Number)
  expect(pids.filter(isRunning)).toHaveLength(40)
  await stop(s.agent)
  expect(pids.filter(isRunning)).toEqual([])
})
