/** Sessions and their files on the command line, against a real `up`. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, vi } from 'vitest'
import { runHere } from './command-here.ts'
import { processesNaming, start, type Place, type Running } from './command-process.ts'

const base = mkdtempSync(path.join(tmpdir(), 'cofferdam-cli-sessions-'))
// Without user namespaces, root's Postgres runs as another user, which must be able to enter the directory.
chmodSync(base, 0o711)
const dataDir = path.join(base, 'data')
const cwd = path.join(base, 'here')
mkdirSync(cwd)
const place = (env: Record<string, string> = {}): Place => ({
  cwd,
  env: { COFFERDAM_DATA_DIR: dataDir, ...env },
})

const onProcess = needs('process-namespaces')
let up: Running
let url: string
const run = (...args: string[]) => runHere(args, place({ COFFERDAM_URL: url }))
const sessions = (...args: string[]) => run('sessions', ...args, '--tenant', 'demo')

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
  rmSync(base, { recursive: true, force: true })
})

onProcess.it('lists a session, writes and reads a file of it, and ends it', async () => {
  writeFileSync(path.join(cwd, 'in.bin'), Uint8Array.from([0, 200, 10]))
  writeFileSync(path.join(cwd, 'own.py'), 'open("own.txt", "w").write("mine")\n')
  expect(await run('run', 'own.py', '--session', 'desk')).toMatchObject({ status: 0 })
  const listed = await sessions('ls')
  expect(listed.stdout).toMatch(/^SESSION +SCOPE +STATE .*\nprocess\/desk +files +(idle|running) /)
  expect(await sessions('put', 'process/desk', 'in.bin', 'deep/in.bin')).toMatchObject({
    status: 0,
    stdout: 'Written.\n',
  })
  expect((await sessions('files', 'process/desk', 'deep')).stdout).toBe('BYTES  PATH\n3      "deep/in.bin"\n')
  expect(await sessions('get', 'process/desk', 'deep/in.bin', 'out.bin')).toMatchObject({ status: 0 })
  expect([...readFileSync(path.join(cwd, 'out.bin'))]).toEqual([0, 200, 10])
  expect(await sessions('rm', 'process/desk')).toMatchObject({ status: 0, stdout: 'Ended.\n' })
  const gone = await sessions('files', 'process/desk')
  expect(gone.status).not.toBe(0)
  expect(gone.stderr).toContain('There is no session with that key')
})

onProcess.it('explains how to name a session, and suggests the nearest verb', async () => {
  expect((await sessions('files', 'desk')).stderr).toContain('BACKEND/KEY')
  expect((await sessions('gett', 'process/desk', 'x')).stderr).toContain('Did you mean get?')
  expect((await run('sessions', 'ls')).stderr).toContain('tenant_id')
})
