/** A session as a sandbox, on a real fleet: random orders of calls against a plain folder, and hard cases. */
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { createSessionSandbox, type SessionSandbox } from '../../libs/tools/src/sandboxes/session-sandbox.ts'
import type { SandboxOptions } from '../../libs/tools/src/sandboxes/sandbox-options.ts'
import { serveFleet, type ServedFleet } from './fleet.ts'
import { playRandomSteps } from './random-steps.ts'

const { it } = needs('process-namespaces')
let served: ServedFleet
beforeAll(async () => {
  served = await serveFleet()
})
afterAll(() => served?.[Symbol.asyncDispose]())

const open = (options: Partial<SandboxOptions> = {}): SessionSandbox =>
  createSessionSandbox({
    client: served.client,
    tenantId: 'acme',
    agentId: 'coder',
    backend: 'process',
    ...options,
  })
const text = (bytes: Uint8Array | null): string | null => bytes && new TextDecoder().decode(bytes)

it('does what a plain folder and bash do, in random orders of calls', async () => {
  await playRandomSteps(open, 3)
})

it('runs one command at a time, however many are asked for at once', async () => {
  const sandbox = open()
  const turn = 'mkdir lock || exit 9; sleep 0.05; rmdir lock'
  const runs = Array.from({ length: 6 }, (_, n) => sandbox.run(`${turn}; echo ${n} >> log`))
  expect((await Promise.all(runs)).map(({ exitCode }) => exitCode)).toEqual([0, 0, 0, 0, 0, 0])
  expect(
    text(await sandbox.files.read('log'))
      ?.trim()
      .split('\n')
      .toSorted()
      .join(''),
  ).toBe('012345')
  await sandbox.end()
})

it('kills a command whose signal aborts, and keeps the files', async () => {
  const sandbox = open()
  const stop = new AbortController()
  let seen = ''
  const running = sandbox.run('echo $$; touch begun; sleep 60; touch late', {
    signal: stop.signal,
    onOutput: (_stream, part) => {
      seen += part
      stop.abort(new Error('enough'))
    },
  })
  await expect(running).rejects.toThrow('enough')
  expect(seen).toMatch(/^\d+\n$/)
  expect((await sandbox.run('ls')).stdout).toBe('begun\n')
  await expect(
    sandbox.run('touch never', { signal: AbortSignal.abort(new Error('before')) }),
  ).rejects.toThrow('before')
  expect((await sandbox.run('ls')).stdout).toBe('begun\n')
  await sandbox.end()
})

it('tells how a command ended in exit codes and words', async () => {
  const sandbox = open()
  expect(await sandbox.run('echo out; echo err >&2; exit 3')).toMatchObject({
    exitCode: 3,
    stdout: 'out\n',
    stderr: 'err\n',
  })
  const slow = await sandbox.run('echo begun; sleep 60', { timeoutMs: 4_000 })
  expect(slow).toMatchObject({ exitCode: 124, isTimedOut: true, isKilled: true, stdout: 'begun\n' })
  expect(slow.stderr).toContain('soft deadline')
  expect(await sandbox.run('kill -TERM $$')).toMatchObject({ exitCode: 143, isKilled: true })
  const env = { GREETING: `it's "1"\n2`, LD_PRELOAD: 'x' }
  const told = await sandbox.run('printf %s "$GREETING"', { env })
  expect([told.stdout, told.stderr]).toEqual([env.GREETING, expect.stringContaining('LD_PRELOAD')])
  expect((await sandbox.run('')).exitCode).toBe(0)
  expect((await sandbox.run('pwd', { cwd: "no 'such" })).exitCode).toBe(1)
  await sandbox.end()
})

it('gives a listener the whole output in order, also what is too long for a result', async () => {
  const sandbox = open()
  const seen = { stdout: '', stderr: '' }
  const command = 'seq 1 100000; seq 1 20000 >&2'
  const result = await sandbox.run(command, { onOutput: (stream, part) => void (seen[stream] += part) })
  const count = (n: number): string => Array.from({ length: n }, (_, at) => `${at + 1}\n`).join('')
  expect(seen.stdout === count(100_000) && seen.stderr === count(20_000)).toBe(true)
  expect(result.stdout === seen.stdout && result.stderr === seen.stderr).toBe(true)
  await sandbox.end()
})

it('reaches files by absolute paths, reads what is outside, and refuses to write there', async () => {
  const sandbox = open()
  const { root } = await sandbox.open()
  await sandbox.files.write(`${root}/in/../x.txt`, 'x')
  expect(text(await sandbox.files.read('x.txt'))).toBe('x')
  expect(text(await sandbox.files.read('/etc/passwd'))).toContain('root')
  expect(await sandbox.files.read('/etc/none')).toBeNull()
  await sandbox.run('ln -s /etc/passwd out; ln -s /etc aside')
  expect(text(await sandbox.files.read('out'))).toContain('root')
  for (const path of ['/etc/x', '../x', '../../etc/passwd', 'aside/x'])
    await expect(sandbox.files.write(path, 'x')).rejects.toThrow('not in the work folder')
  await expect(sandbox.files.remove('../x')).rejects.toThrow('not in the work folder')
  for (const path of ['', 'a\0b'])
    await expect(sandbox.files.read(path)).rejects.toMatchObject({ code: 'invalid_request' })
  await sandbox.end()
})

it('moves 8 MiB of any bytes both ways, and no more', async () => {
  const sandbox = open()
  const bytes = Uint8Array.from({ length: 8 * 1024 * 1024 }, (_, at) => (at * 31) % 256)
  await sandbox.files.write('big.bin', bytes)
  expect(Buffer.compare((await sandbox.files.read('big.bin')) ?? new Uint8Array(), bytes)).toBe(0)
  await expect(sandbox.files.write('more.bin', new Uint8Array(bytes.length + 1))).rejects.toMatchObject({
    code: 'payload_too_large',
  })
  await sandbox.run('printf x >> big.bin')
  await expect(sandbox.files.read('big.bin')).rejects.toMatchObject({ code: 'payload_too_large' })
  await sandbox.end()
})

it('keeps a script executable when its content is replaced', async () => {
  const sandbox = open()
  await sandbox.run('printf "#!/bin/bash\\necho old" > tool; chmod 750 tool')
  await sandbox.files.write('tool', '#!/bin/bash\necho new')
  expect((await sandbox.run('./tool')).stdout).toBe('new\n')
  await sandbox.files.write('plain', 'x')
  expect((await sandbox.run('test -x plain')).exitCode).toBe(1)
  await sandbox.end()
})

it('says once that the session is gone, and then begins a new one unless it must exist', async () => {
  const sandbox = open()
  await sandbox.files.write('kept', 'x')
  const other = open({ key: sandbox.key, mustExist: true })
  expect(text(await other.files.read('kept'))).toBe('x')
  expect((await other.open()).fresh).toBe(false)
  await other.end()
  await expect(sandbox.run('ls')).rejects.toMatchObject({ code: 'session_not_found' })
  expect((await sandbox.run('ls')).stdout).toBe('')
  await sandbox.end()
  await expect(open({ key: sandbox.key, mustExist: true }).run('ls')).rejects.toMatchObject({
    code: 'session_not_found',
  })
  expect(await sandbox.find()).toBeNull()
})
