/** The agent with frames on a unix socket and stdin only as a life line. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, unlinkSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { agentArgv, createGuestSession, installGuest, type GuestSession } from '../../src/guest/index.ts'
import { openLab, programUser, PYTHON, type Lab } from './start-agent.ts'

let lab: Lab
let guestDir: string
const open: { child: ChildProcess; server: Server }[] = []

beforeAll(async () => {
  lab = await openLab()
  guestDir = join(lab.folder(), 'guest')
  await installGuest(guestDir, PYTHON)
})
afterEach(async () => {
  for (const { child, server } of open.splice(0)) {
    server.close()
    child.stdin!.destroy()
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
})
afterAll(() => lab.close())

function spawnAgent(path: string): ChildProcess {
  const [command, ...args] = agentArgv({
    python: PYTHON,
    guestDir,
    language: 'none',
    work: lab.folder(),
    socket: path,
    ...programUser,
  })
  return spawn(command!, args, { stdio: ['pipe', 'pipe', 'pipe'], env: {} })
}

async function startAgent(): Promise<{
  child: ChildProcess
  socket: Socket
  session: GuestSession
  path: string
}> {
  const path = join(lab.folder(), 'agent.sock')
  const server = createServer().listen(path)
  await once(server, 'listening')
  chmodSync(path, 0o666)
  const child = spawnAgent(path)
  open.push({ child, server })
  const [socket] = (await once(server, 'connection')) as [Socket]
  unlinkSync(path)
  return { child, socket, session: createGuestSession({ readable: socket, writable: socket }), path }
}

test('sends and receives frames only on the socket', async () => {
  const { child, session, path } = await startAgent()
  let stdout = ''
  child.stdout!.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  await session.ready()
  let got = 0
  await session.write([{ path: 'in', bytes: Buffer.alloc(5 << 20, 1) }])
  const exit = await session.run(
    { type: 'command', shell: `cat in; cat; ls -l /proc/self/fd >&2; test ! -e ${path}` },
    {
      // So slow that frames wait in the agent, which must then poll its socket for both directions.
      onOutput: async (_stream, chunk) => {
        got += chunk.length
        await new Promise((resolve) => setImmediate(resolve))
      },
      stdin: Buffer.alloc(3 << 20, 2),
      maxOutputBytes: { stdout: 10 << 20, stderr: 4096 },
      signal: new AbortController().signal,
    },
    {},
  )
  expect(exit).toMatchObject({ exitCode: 0, outputBytes: { stdout: 8 << 20 } })
  expect(got - exit.outputBytes.stderr).toBe(8 << 20)
  expect(await session.read('in', 5 << 20)).toHaveLength(5 << 20)
  expect(stdout).toBe('')
  session.close()
  await once(child, 'exit')
  expect(child.exitCode).toBe(0)
})

test('gives a program neither the socket nor the life line', async () => {
  const { session } = await startAgent()
  let listing = ''
  await session.run(
    { type: 'command', argv: ['ls', '-l', '/proc/self/fd'] },
    {
      onOutput: (_stream, chunk) => void (listing += Buffer.from(chunk).toString()),
      maxOutputBytes: { stdout: 4096, stderr: 4096 },
      signal: new AbortController().signal,
    },
    {},
  )
  // stdin, stdout, stderr and the listing itself.
  expect(listing.split('\n').filter((line) => line.includes('->')).length).toBe(4)
})

test.each<[string, (child: ChildProcess, socket: Socket) => void]>([
  ['the life line ends', (child) => child.stdin!.end()],
  ['the life line carries a byte', (child) => child.stdin!.write('x')],
  ['the socket ends', (_child, socket) => socket.destroy()],
])('kills everything and exits if %s', async (_name, act) => {
  const { child, socket, session } = await startAgent()
  const up = Promise.withResolvers<number>()
  const running = session.run(
    { type: 'command', shell: 'echo $$; exec sleep 1000' },
    {
      onOutput: (_stream, chunk) => up.resolve(Number(Buffer.from(chunk).toString())),
      maxOutputBytes: { stdout: 4096, stderr: 4096 },
      signal: new AbortController().signal,
    },
    {},
  )
  running.catch(() => {})
  const pid = await up.promise
  act(child, socket)
  await once(child, 'exit')
  expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  await expect(running).rejects.toMatchObject({ code: 'sandbox_lost' })
})

test('names the socket without listener on stderr, and ends', async () => {
  const path = join(lab.folder(), 'none.sock')
  const child = spawnAgent(path)
  let stderr = ''
  child.stderr!.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  await once(child, 'close')
  expect(stderr).toBe(`agent: cannot connect to the socket ${path}: No such file or directory\n`)
  expect(child.exitCode).toBe(1)
})
