/** The Python client's wheel is built and installed without an index, and its own tests run on a fleet. */
import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import { startFleet } from '../fleet.ts'

const run = promisify(execFile)
const SOURCES = join(import.meta.dirname, '../../clients/python')

needs('process-namespaces', 'pip').it(
  'the wheel is built and installed without an index, and its tests pass',
  { timeout: 240_000 },
  async () => {
    await using fleet = await startFleet()
    await fleet.createTenant('acme', {
      policy: { min_isolation: 'none', keep_program: 'errors' },
      caps: { tenant_daily: 10_000, agent_hourly: 10_000 },
    })
    const { key } = await fleet.store.keys.create('admin', 'test')
    const folder = await mkdtemp(join(fleet.dataDir, 'wheel-'))
    const pip = ['-m', 'pip', '--isolated', '--no-cache-dir', '--disable-pip-version-check']
    await run('python3', [...pip, 'wheel', '--no-index', '--no-deps', '--wheel-dir', folder, SOURCES])
    const [wheel = ''] = globSync('*.whl', { cwd: folder })
    const installed = join(folder, 'installed')
    await run('python3', [...pip, 'install', '--no-index', '--target', installed, join(folder, wheel)])
    await fleet.runWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '4' })
    const { url } = await fleet.runApi()
    const tests = ['-m', 'unittest', 'discover', '--start-directory', join(SOURCES, 'tests')]
    const env = {
      ...process.env,
      PYTHONPATH: installed,
      PYTHONDONTWRITEBYTECODE: '1',
      COFFERDAM_URL: url,
      COFFERDAM_API_KEY: key,
    }
    const { stderr } = await run('python3', tests, { cwd: folder, env })
    expect(stderr).toMatch(/Ran 1\d tests/)
    expect(stderr).toMatch(/\nOK\n$/)
  },
)
