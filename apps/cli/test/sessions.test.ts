/** Sessions and their files on the command line, against a real `up`. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, expect, vi } from 'vitest'
import { runHere } from './command-here.ts'
import { processesNaming, start, type Place, type Running } from './command-process.ts'

// Without user namespaces, root's Postgres runs as another user, which must be able to enter the directory.
const base = temporaryFolder('cli-sessions', 0o711)
const dataDir = path.join(base, 'data')
const cwd = path.join(base, 'here')
beforeAll(() => mkdirSync(cwd))
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
  for (const words of [['pause'], ['resume'], ['fork', 'one,two']]) {
    const [verb = '', ...rest] = words
    const refused = await sessions(verb, 'process/desk', ...rest)
    expect(refused.status).not.toBe(0)
    expect(refused.stderr).toContain('The backend process cannot pause, resume or fork sessions')
  }
  expect(await sessions('rm', 'process/desk')).toMatchObject({ status: 0, stdout: 'Ended.\n' })
  const gone = await sessions('files', 'process/desk')
  expect(gone.status).not.toBe(0)
  expect(gone.stderr).toContain('There is no session with that key')
})

onProcess.it(
  'lists and gets what was collected from a session, also when the session has ended',
  async () => {
    const made =
      'import os; os.makedirs(".session/outputs"); open(".session/outputs/plot.png", "w").write("png")\n'
    writeFileSync(path.join(cwd, 'outputs.py'), made)
    expect(await run('run', 'outputs.py', '--session', 'sesn_1')).toMatchObject({ status: 0 })
    const none = await sessions('outputs', 'sesn_1')
    expect(none.stdout).toBe('Nothing was collected from this session, or it has expired.\n')
    const collected = await collect({ path: '.session/outputs', limits: {} })
    expect(collected).toMatchObject({ ok: true, artifacts: [{ path: 'plot.png' }] })
    writeFileSync(path.join(cwd, 'big.py'), 'open(".session/outputs/two words", "w").write("12345")\n')
    expect(await run('run', 'big.py', '--session', 'sesn_1')).toMatchObject({ status: 0 })
    await collect({ path: '.session/outputs', limits: { artifact_bytes: 4 } })
    expect(await sessions('rm', 'process/sesn_1')).toMatchObject({ status: 0 })

    const listed = await sessions('outputs', 'sesn_1')
    expect(listed.stdout).toMatch(/^BYTES +STORED +PATH\n3 +20\S+Z +"plot.png"\n$/)
    expect(listed.stderr).toMatch(/^Left out of exe_[0-9a-f]{32}: "two words", 5 bytes \(too_large\)\n$/)
    const { outputs, newest, truncated } = JSON.parse((await sessions('outputs', 'sesn_1', '--json')).stdout)
    expect(outputs).toMatchObject([{ path: 'plot.png', size: 3 }])
    expect([newest.omitted, truncated]).toEqual([
      [{ path: 'two words', size: 5, reason: 'too_large' }],
      false,
    ])

    expect(await sessions('outputs', 'sesn_1', 'plot.png')).toMatchObject({ status: 0 })
    const got = await sessions('outputs', 'sesn_1', 'plot.png', '--output', 'again.png', '--json')
    expect(JSON.parse(got.stdout)).toEqual({ file: path.join(cwd, 'again.png'), bytes: 3 })
    for (const name of ['plot.png', 'again.png'])
      expect(readFileSync(path.join(cwd, name), 'utf8')).toBe('png')
    const missing = await sessions('outputs', 'sesn_1', 'nothing.png')
    expect([missing.status, missing.stderr]).toEqual([1, expect.stringContaining('no output of that path')])
    expect(existsSync(path.join(cwd, 'nothing.png'))).toBe(false)
    expect((await sessions('outputs', 'sesn_1', '--output', 'x')).stderr).toContain(
      '--output needs a file to get',
    )
    expect((await sessions('ls', '--output', 'x')).stderr).toContain('--output needs a file to get')
  },
)

/** Collects from the session sesn_1, as the dispatcher does. */
async function collect({ path: folder, limits }: { path: string; limits: object }): Promise<unknown> {
  const key = readFileSync(path.join(dataDir, 'admin.key'), 'utf8').trim()
  const reply = await fetch(`${url}/v1/executions?wait=30s`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      tenant_id: 'demo',
      agent_id: 'cli',
      run_id: 'sesn_1',
      backend: 'process',
      program: { type: 'files', op: 'collect', path: folder },
      session: { key: 'sesn_1' },
      limits,
    }),
  })
  return await reply.json()
}

onProcess.it('explains how to name a session, and suggests the nearest verb', async () => {
  expect((await sessions('files', 'desk')).stderr).toContain('BACKEND/KEY')
  expect((await sessions('gett', 'process/desk', 'x')).stderr).toContain('Did you mean get?')
  expect((await run('sessions', 'ls')).stderr).toContain('tenant_id')
})
