/**
 * E2B's unmodified SDK tests the double's processes with the cases of the SDK's own tests of the service
 * (e2b-dev/E2B @b8029973, packages/js-sdk/tests/sandbox/commands and pty).
 */
import {
  AuthenticationError,
  CommandExitError,
  InvalidArgumentError,
  NotFoundError,
  Sandbox,
  SandboxError,
  TimeoutError,
} from 'e2b'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startE2bDouble, type E2bDouble } from '../double/e2b-double.ts'

const NOBODYS_PID = 999_999

needs('bwrap').describe('E2B’s double, called by E2B’s SDK for commands,', () => {
  let double: E2bDouble
  let sandbox: Sandbox

  beforeAll(async () => {
    double = await startE2bDouble()
    sandbox = await Sandbox.create('base', {
      apiKey: double.apiKey,
      apiUrl: double.origin,
      sandboxUrl: double.origin,
      timeoutMs: 600_000,
      envs: { FOO: 'sandbox' },
    })
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
  })

  const stdout = async (command: string, more: object = {}): Promise<string> =>
    (await sandbox.commands.run(command, more)).stdout

  it.each(['Hello, World!', '!@#$%^&*()_+', 'Hello,\nWorld!', 'grüße 😀'])(
    'runs echo with %j',
    async (text) => {
      expect(await sandbox.commands.run(`echo "${text}"`)).toMatchObject({
        exitCode: 0,
        stdout: `${text}\n`,
        stderr: '',
      })
    },
  )

  it('reports how a command ended', async () => {
    const failed: unknown = await sandbox.commands
      .run('echo out; echo err >&2; exit 3')
      .catch((error) => error)
    expect(failed).toBeInstanceOf(CommandExitError)
    expect(failed).toMatchObject({ exitCode: 3, stdout: 'out\n', stderr: 'err\n', error: 'exit status 3' })
    const killed: unknown = await sandbox.commands.run('kill -9 $$').catch((error: unknown) => error)
    expect(killed).toMatchObject({ exitCode: -1, error: 'signal: killed' })
  })

  it('calls back with output while a command runs', async () => {
    const heard: string[] = []
    await sandbox.commands.run('echo one; echo two >&2', {
      onStdout: (text) => void heard.push(text),
      onStderr: (text) => void heard.push(text),
    })
    expect(heard.toSorted()).toEqual(['one\n', 'two\n'])
  })

  it('runs a command in a folder, and refuses a missing folder', async () => {
    expect(await stdout('pwd', { cwd: '/tmp' })).toBe('/tmp\n')
    await expect(stdout('pwd', { cwd: '/not/there' })).rejects.toBeInstanceOf(InvalidArgumentError)
  })

  it('gives a command its own variables, which override those of the sandbox', async () => {
    expect(await stdout('echo $FOO')).toBe('sandbox\n')
    expect(await stdout('echo $FOO', { envs: { FOO: 'command' } })).toBe('command\n')
    expect(await stdout(`python3 -c "import os; print(os.environ['FOO'])"`, { envs: { FOO: 'py' } })).toBe(
      'py\n',
    )
    expect(await stdout('echo $FOO $USER $HOME')).toBe('sandbox user /home/user\n')
  })

  it('runs commands as its own user, and refuses other and unknown users', async () => {
    expect(await stdout('whoami', { user: 'user' })).toBe('user\n')
    await expect(stdout('whoami', { user: 'nobody-here' })).rejects.toBeInstanceOf(AuthenticationError)
    await expect(stdout('whoami', { user: 'root' })).rejects.toThrow('this double')
  })

  it('ends a command at its deadline, for the client and in the sandbox', async () => {
    await expect(sandbox.commands.run('sleep 61', { timeoutMs: 500 })).rejects.toBeInstanceOf(TimeoutError)
    const handle = await sandbox.commands.run('exec sleep 62', { timeoutMs: 1000, background: true })
    await expect(handle.wait()).rejects.toBeInstanceOf(TimeoutError)
    await expect
      .poll(async () => (await sandbox.commands.list()).map(({ pid }) => pid), { timeout: 20_000 })
      .not.toContain(handle.pid)
  })

  it('lists running processes with their commands', async () => {
    const handles = await Promise.all(
      ['sleep 63', 'sleep 64'].map((command) =>
        sandbox.commands.run(command, { background: true, envs: { A: 'b' }, cwd: '/tmp' }),
      ),
    )
    const running = await sandbox.commands.list()
    for (const { pid } of handles)
      expect(running.find((one) => one.pid === pid)).toMatchObject({
        cmd: '/bin/bash',
        args: ['-l', '-c', expect.stringMatching(/^sleep 6[34]$/)],
        envs: { A: 'b' },
        cwd: '/tmp',
      })
    for (const handle of handles) expect(await handle.kill()).toBe(true)
  })

  it('kills a process, and reports if there is none', async () => {
    const handle = await sandbox.commands.run('exec sleep 65', { background: true })
    expect(await sandbox.commands.kill(handle.pid)).toBe(true)
    await expect(handle.wait()).rejects.toBeInstanceOf(CommandExitError)
    await expect(stdout(`kill -0 ${handle.pid}`)).rejects.toBeInstanceOf(CommandExitError)
    expect(await sandbox.commands.kill(handle.pid)).toBe(false)
    expect(await sandbox.commands.kill(NOBODYS_PID)).toBe(false)
  })

  it('connects to a process that runs or has run, and to no other', async () => {
    const handle = await sandbox.commands.run('read line; echo "got $line"; exit 4', {
      background: true,
      stdin: true,
    })
    const other = await sandbox.commands.connect(handle.pid)
    expect(other.pid).toBe(handle.pid)
    await sandbox.commands.sendStdin(handle.pid, 'this\n')
    for (const one of [handle, other])
      await expect(one.wait()).rejects.toMatchObject({ exitCode: 4, stdout: 'got this\n' })
    const late = await sandbox.commands.connect(handle.pid)
    await expect(late.wait()).rejects.toMatchObject({ exitCode: 4 })
    await expect(sandbox.commands.connect(NOBODYS_PID)).rejects.toBeInstanceOf(NotFoundError)
  })

  it.each(['Hello, World!', '!@#$%^&*()_+', 'Hello,\nWorld!', '', new TextEncoder().encode('bytes')])(
    'sends %j to a process, and closes its input',
    async (input) => {
      const handle = await sandbox.commands.run('cat', { background: true, stdin: true })
      await sandbox.commands.sendStdin(handle.pid, input)
      await handle.closeStdin()
      expect(await handle.wait()).toMatchObject({
        exitCode: 0,
        stdout: typeof input === 'string' ? input : 'bytes',
      })
    },
  )

  it('refuses input for a process without stdin, with closed stdin, or that has ended', async () => {
    const deaf = await sandbox.commands.run('exec sleep 66', { background: true })
    const error: unknown = await sandbox.commands.sendStdin(deaf.pid, 'x').catch((caught: unknown) => caught)
    expect(error).toBeInstanceOf(SandboxError)
    expect(String(error)).toContain('stdin not enabled or closed')
    await deaf.kill()
    const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
    await cat.closeStdin()
    await cat.wait()
    await expect(sandbox.commands.sendStdin(cat.pid, 'x')).rejects.toBeInstanceOf(NotFoundError)
    await expect(sandbox.commands.sendStdin(NOBODYS_PID, 'x')).rejects.toBeInstanceOf(NotFoundError)
  })

  it('sends nothing more after a client disconnects from a process, which runs on', async () => {
    const handle = await sandbox.commands.run('read line; echo $line', { background: true, stdin: true })
    await handle.disconnect()
    expect((await sandbox.commands.list()).map(({ pid }) => pid)).toContain(handle.pid)
    const again = await sandbox.commands.connect(handle.pid)
    await sandbox.commands.sendStdin(handle.pid, 'on\n')
    expect((await again.wait()).stdout).toBe('on\n')
  })

  it('reports that it does not support terminals', async () => {
    await expect(sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined })).rejects.toThrow(
      'this double',
    )
    await expect(sandbox.pty.resize(NOBODYS_PID, { cols: 80, rows: 24 })).rejects.toThrow('this double')
    expect(await stdout('echo on')).toBe('on\n')
  })
})
