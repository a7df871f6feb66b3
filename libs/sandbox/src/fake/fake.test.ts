import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type Exit,
  type Sandbox,
} from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { createFakeBackend, fakeSource, type FakeStep } from './index.ts'
import { parseSteps } from './steps.ts'

async function run(...steps: FakeStep[]): Promise<{ exit: Exit; stdout: string; stderr: string }> {
  await using backend = createFakeBackend()
  const program = { type: 'script', language: 'bash', source: fakeSource(...steps) } as const
  const sandbox: Sandbox = await backend.open(
    {
      sandboxId: newSandboxId(),
      executionId: newExecutionId(),
      attempt: 1,
      tenantId: 't',
      owner: newWorkerId('0123456789ab'),
      program,
      limits: DEFAULT_LIMITS,
      network: 'none',
      env: {},
      preload: null,
      reuse: 'job',
      session: null,
    },
    new AbortController().signal,
  )
  const text = { stdout: '', stderr: '' }
  const exit = await sandbox.run(program, {
    signal: new AbortController().signal,
    maxOutputBytes: { stdout: 1000, stderr: 1000 },
    onOutput: (stream, chunk) => {
      text[stream] += Buffer.from(chunk).toString()
    },
  })
  return { exit, ...text }
}

test('ignores any other text', () => {
  expect(parseSteps('import os\nprint("hello")\n\n[1, 2]\n"text"\n{ not json')).toEqual([])
})

test('ends a program with a wrong step as a syntax error, with the line', () => {
  expect(parseSteps('# ok\n{"prnt": "x"}')).toEqual({ error: 'fake: line 2 is no step: {"prnt": "x"}' })
})

test('returns the evidence that a script asks for', async () => {
  expect((await run({ oom: true })).exit).toMatchObject({ exitCode: null, signal: 'SIGKILL', oomKills: 1 })
  expect((await run({ pids_limit: true }, { exit: 3 })).exit).toMatchObject({
    exitCode: 3,
    pidsLimitHit: true,
  })
  expect((await run({ disk_limit: true })).exit).toMatchObject({ exitCode: 0, diskLimitHit: true })
  expect((await run({ usage: { cpu_ms: 12 } })).exit.usage).toMatchObject({ cpu_ms: 12, read_bytes: null })
})

test('counts a flood without creating it', async () => {
  const { exit, stdout } = await run({ repeat: { text: 'ab', times: 1_000_000_000 } })
  expect(stdout).toBe('ab'.repeat(500))
  expect(exit).toMatchObject({ outputBytes: { stdout: 2_000_000_000 }, outputDropped: { stdout: true } })
})

test('rejects the run of a sandbox that dies', async () => {
  await expect(run({ print: 'a' }, { die: true })).rejects.toMatchObject({ code: 'sandbox_lost' })
})

test('stops at the step that ends the program', async () => {
  expect(await run({ throw: 'boom' }, { print: 'never' })).toMatchObject({ stdout: '', stderr: 'boom\n' })
})
