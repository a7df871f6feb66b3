/** Routines, progress and callback secrets on the command line, against a real `up`. */
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, expect, vi } from 'vitest'
import { runHere } from './command-here.ts'
import { processesNaming, start, type Place, type Running } from './command-process.ts'

// Without user namespaces, root's Postgres runs as another user, which must be able to enter the directory.
const base = temporaryFolder('cli-routines', 0o711)
const dataDir = path.join(base, 'data')
const cwd = path.join(base, 'here')
beforeAll(() => mkdirSync(cwd))
const place = (env: Record<string, string> = {}): Place => ({
  cwd,
  env: { COFFERDAM_DATA_DIR: dataDir, ...env },
})

const withProcess = needs('process')
let up: Running
let url: string
const run = (...args: string[]) => runHere(args, place({ COFFERDAM_URL: url }))
const json = async (...args: string[]): Promise<Record<string, unknown>> => {
  const { stdout, stderr, status } = await run(...args, '--json')
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  return JSON.parse(stdout) as Record<string, unknown>
}

beforeAll(async () => {
  up = start(['up', '--port', '0', '--json'], place({ COFFERDAM_BACKENDS: 'process' }))
  await vi.waitFor(
    () => {
      if (up.child.exitCode !== null) throw new Error(`up ended: ${up.stderr}`)
      url = (JSON.parse(up.stdout) as { url: string }).url
    },
    { timeout: 110_000, interval: 100 },
  )
})
afterAll(async () => {
  up.child.kill('SIGKILL')
  await up.ended
  await vi.waitFor(() => expect(processesNaming(dataDir)).toEqual([]), { timeout: 20_000 })
})

withProcess.it('creates a routine from a file, shows, runs and switches it, and deletes it', async () => {
  writeFileSync(
    path.join(cwd, 'report.py'),
    'import cofferdam\ncofferdam.progress(0.5, "half")\nprint("made")\n',
  )
  const flags = [
    '--cron',
    '30 2 * * *',
    '--time-zone',
    'Europe/Berlin',
    '--timeout',
    '2h',
    '--heartbeat',
    '10m',
  ]
  const made = await run('routines', 'create', 'report.py', ...flags)
  expect(made).toMatchObject({ status: 0, stdout: expect.stringMatching(/^rtn_[0-9a-f]{32}\n$/) })
  const id = made.stdout.trim()

  const shown = await json('routines', 'show', id)
  expect(shown).toMatchObject({ name: 'report.py', enabled: true, concurrency: 'forbid', runs: [] })
  expect(shown['request']).toMatchObject({
    lane: 'routine',
    limits: { soft_timeout_ms: 7_200_000, heartbeat_timeout_ms: 600_000 },
  })
  expect((await run('routines', 'list')).stdout).toMatch(/report\.py +30 2 \* \* \* \(Europe\/Berlin\)/)

  const execution = (await run('routines', 'run', id)).stdout.trim()
  expect(execution).toMatch(/^exe_/)
  expect(await run('logs', execution, '--follow')).toMatchObject({ status: 0, stdout: 'made\n' })
  expect((await run('status', execution)).stdout).toMatch(/progress +\[#{12}·{12}\] {2}50 % {2}half/)

  expect(await json('routines', 'disable', id)).toMatchObject({ enabled: false, next_run_at: null })
  expect(await json('routines', 'enable', id)).toMatchObject({ enabled: true })
  expect((await run('routines', 'delete', id)).status).toBe(0)
  expect((await run('routines', 'show', id)).status).toBe(1)
})

withProcess.it('refuses an unknown verb, two schedules at once, and an invalid cron expression', async () => {
  expect(await run('routines', 'lst')).toMatchObject({
    status: 2,
    stderr: expect.stringContaining('Did you mean list?'),
  })
  const both = await run('routines', 'create', 'report.py', '--cron', '* * * * *', '--every', '1m')
  expect(both.status).toBe(2)
  const odd = await run('routines', 'create', 'report.py', '--cron', '61 * * * *')
  expect(odd).toMatchObject({ status: 1, stderr: expect.stringContaining('schedule.cron') })
})

withProcess.it('creates a callback secret, and refuses a callback before there is one', async () => {
  const flags = ['--callback-url', 'https://receiver.example/hook']
  const refused = await run('enqueue', 'report.py', ...flags)
  expect(refused.status).not.toBe(0)
  expect(refused.stderr).toMatch(/no secret to sign callbacks/)
  const made = await run('tenant', 'new-callback-secret', 'demo')
  expect(made).toMatchObject({ status: 0, stdout: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=\n$/) })
  const id = (await run('enqueue', 'report.py', ...flags)).stdout.trim()
  await run('logs', id, '--follow')
  expect((await json('status', id))['callback']).toMatchObject({ state: expect.any(String) })
})
