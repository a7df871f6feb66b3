/** `npm start` as a child process, for tests that use it as a user does. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export interface Up {
  url: string
  apiKey: string
  dataDir: string
  /** Runs a program of the repository against this fleet. Resolves with its output and exit code. */
  run(program: string, args: string[]): Promise<{ stdout: string; stderr: string; code: number | null }>
  /** Sends Ctrl-C and expects a clean end. */
  stop(): Promise<void>
}

/** Starts `cofferdam up` on a free port with a data directory of its own. */
export async function startUp(): Promise<Up> {
  const dataDir = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-up-'))
  // If root has no user namespaces, its Postgres runs as another user. That user must be able to enter this
  // folder.
  await chmod(dataDir, 0o711)
  const { PATH = '', DOCKER_HOST } = process.env
  const base = {
    // The commands of package.json's bin folder, as npm puts them on PATH.
    PATH: `${path.join(ROOT, 'node_modules/.bin')}:${PATH}`,
    HOME: os.tmpdir(),
    ...(DOCKER_HOST === undefined ? {} : { DOCKER_HOST }),
    COFFERDAM_DATA_DIR: dataDir,
  }
  const up = spawn(process.execPath, ['apps/cli/src/main.ts', 'up', '--port', '0', '--json'], {
    cwd: ROOT,
    env: base,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(createInterface({ input: up.stdout }), 'line')) as [string]
  const { url, result } = JSON.parse(line) as { url: string; result: { ok: boolean } }
  expect(result.ok).toBe(true)
  const apiKey = (await readFile(path.join(dataDir, 'admin.key'), 'utf8')).trim()
  const env = { ...base, COFFERDAM_URL: url, COFFERDAM_API_KEY: apiKey }

  return {
    url,
    apiKey,
    dataDir,
    async run(program, args) {
      const child = spawn(program, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] })
      const texts = Promise.all([child.stdout, child.stderr].map(async (s) => (await s.toArray()).join('')))
      const [code] = (await once(child, 'exit')) as [number | null]
      const [stdout = '', stderr = ''] = await texts
      return { stdout, stderr, code }
    },
    async stop() {
      const exited = once(up, 'exit')
      up.kill('SIGINT')
      const [code] = (await exited) as [number | null]
      await rm(dataDir, { recursive: true, force: true })
      expect(code).toBe(0)
    },
  }
}
