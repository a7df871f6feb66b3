/** The package without a fleet: the README's example, and the promises of its text. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { needsBackend } from '@cofferdam/embedded/needs'
import { openSandbox } from '@cofferdam/sandbox'
import { expect } from 'vitest'

const { it } = needsBackend('process')
const HERE = fileURLToPath(new URL('..', import.meta.url))

it('prints the output shown in README.md for its example', async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8')
  const [, example = ''] = /```ts\n([^]*?)```/.exec(readme) ?? []
  const [, printed = ''] = /It prints `(.*?)`/.exec(readme) ?? []
  const argv = ['--input-type=module', '-e', example]
  const { stdout } = await promisify(execFile)(process.execPath, argv, { cwd: HERE })
  expect(stdout).toBe(`${printed}\n`)
})

it('asks a program to end at the soft deadline and keeps its output', async () => {
  await using sandbox = await openSandbox({ limits: { soft_timeout_ms: 500, hard_timeout_ms: 60_000 } })
  const ended = await sandbox.run('import time\nprint("so far", flush=True)\ntime.sleep(600)')
  expect(ended).toMatchObject({ timedOut: 'soft', stdout: 'so far\n' })
})

it('kills a program that ignores its deadlines', async () => {
  await using sandbox = await openSandbox({
    language: 'bash',
    // Long enough for bash to set its traps on a busy machine.
    limits: { soft_timeout_ms: 8000, hard_timeout_ms: 8500 },
  })
  const ended = await sandbox.run('trap "" INT TERM; echo on; while :; do sleep 1; done')
  expect(ended).toMatchObject({ timedOut: 'hard', exitCode: null, signal: 'SIGKILL' })
})

it('refuses a second program if nothing is kept', async () => {
  await using sandbox = await openSandbox()
  expect((await sandbox.run('exit(3)')).exitCode).toBe(3)
  await expect(sandbox.run('print(1)')).rejects.toMatchObject({ code: 'conflict' })
})

it('reports what is missing on a host that lacks the backend', async () => {
  await expect(openSandbox({ config: { python: '/nowhere/python3' } })).rejects.toMatchObject({
    code: 'backend_unavailable',
    message: expect.stringContaining('apt install python3'),
  })
})
