/** `npm start` as a user runs it, and every example against it: their header comments say what they print. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const EXAMPLES = path.join(ROOT, 'examples')
const programs = (await readdir(EXAMPLES)).filter((name) => name.endsWith('.ts') && name !== 'connect.ts')

let dataDir: string
let up: ChildProcess
let url: string
let apiKey: string

beforeAll(async () => {
  dataDir = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-examples-'))
  up = spawn(process.execPath, ['apps/cli/src/main.ts', 'up', '--port', '0', '--json'], {
    cwd: ROOT,
    env: environment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (up.stdout === null) throw new Error('no stdout')
  const [report] = (await once(createInterface({ input: up.stdout }), 'line')) as [string]
  const { url: address, result } = JSON.parse(report) as { url: string; result: { ok: boolean } }
  expect(result.ok).toBe(true)
  url = address
  apiKey = (await readFile(path.join(dataDir, 'admin.key'), 'utf8')).trim()
})

afterAll(async () => {
  const exited = once(up, 'exit')
  up.kill('SIGINT')
  const [code] = (await exited) as [number | null]
  await rm(dataDir, { recursive: true, force: true })
  expect(code).toBe(0)
})

const environment = () => ({
  PATH: process.env['PATH'] ?? '',
  HOME: os.tmpdir(),
  COFFERDAM_DATA_DIR: dataDir,
})

/** Runs a command in the repository; resolves with what it printed and its exit code. */
async function run(args: string[]): Promise<{ stdout: string; stderr: string; code: number | null }> {
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...environment(), COFFERDAM_URL: url, COFFERDAM_API_KEY: apiKey },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const texts = Promise.all([child.stdout, child.stderr].map(async (s) => (await s.toArray()).join('')))
  const [code] = (await once(child, 'exit')) as [number | null]
  const [stdout = '', stderr = ''] = await texts
  return { stdout, stderr, code }
}

it.each(programs)('examples/%s prints what its header says', async (name) => {
  const source = await readFile(path.join(EXAMPLES, name), 'utf8')
  const promised = /^ \* Output:\n((?: \* {3}.*\n)+)/m.exec(source)?.[1]?.replaceAll(/^ \* {3}/gm, '')
  expect(promised, 'an Output: block in the header').toBeDefined()
  expect(await run([path.join('examples', name)])).toEqual({ stdout: promised, stderr: '', code: 0 })
})

it('cofferdam run examples/hello.py shows the output and leaves with the exit code', async () => {
  const { stdout, code } = await run(['apps/cli/src/main.ts', 'run', 'examples/hello.py'])
  expect(stdout).toContain('Hello from CPython\n')
  expect(code).toBe(0)
})
