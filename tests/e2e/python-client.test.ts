/**
 * The Python client from the source in this repository: its own tests, and a stream that goes on after a
 * restart.
 */
import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import type { RunningApi } from '@cofferdam/api'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'

const SOURCES = join(import.meta.dirname, '../../clients/python')
const PATIENT = { timeout: 240_000 }

let fleet: Fleet
let api: RunningApi
let apiKey = ''
beforeAll(async () => {
  fleet = await startFleet()
  await fleet.createTenant('acme', {
    policy: { min_isolation: 'none', keep_program: 'errors' },
    caps: { tenant_daily: 10_000, agent_hourly: 10_000 },
  })
  apiKey = (await fleet.store.keys.create('admin', 'test')).key
  api = await startApi('0')
})
afterAll(() => fleet?.[Symbol.asyncDispose]())

const startApi = (port: string): Promise<RunningApi> => fleet.runApi({ COFFERDAM_PORT: port })
const environment = () => ({
  ...process.env,
  PYTHONPATH: SOURCES,
  PYTHONDONTWRITEBYTECODE: '1',
  COFFERDAM_URL: api.url,
  COFFERDAM_API_KEY: apiKey,
})

// python-wheel.long.test.ts runs the same tests with the built and installed package.
needs('process-namespaces').it('its own tests pass on a fleet', PATIENT, async () => {
  const worker = await fleet.runWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '4' })
  const tests = ['-m', 'unittest', 'discover', '--start-directory', join(SOURCES, 'tests')]
  const { stderr } = await promisify(execFile)('python3', tests, { cwd: fleet.dataDir, env: environment() })
  expect(stderr).toMatch(/Ran 1\d tests/)
  expect(stderr).toMatch(/\nOK\n$/)
  await worker.close()
})

it('a stream goes on when the API restarts', PATIENT, async () => {
  const worker = await fleet.runWorker({ COFFERDAM_BACKENDS: 'fake' })
  const steps = Array.from({ length: 12 }, (_, n) => [{ print: String(n) }, { sleep_ms: 500 }]).flat()
  const program = {
    type: 'script',
    language: 'python',
    source: steps.map((step) => JSON.stringify(step)).join('\n'),
  }
  const follow = [
    'import json, sys',
    'from cofferdam import Client',
    'client = Client()',
    'accepted = client.enqueue(json.loads(sys.argv[1]))',
    'for stored in client.stream(accepted["execution_id"]):',
    '    if stored.event["type"] == "output": print(stored.event["text"], end="", flush=True)',
  ].join('\n')
  const request = { tenant_id: 'acme', agent_id: 'a', backend: 'fake', program }
  const child = spawn('python3', ['-c', follow, JSON.stringify(request)], { env: environment() })
  const failure = text(child.stderr)
  let printed = ''
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    const isFirst = printed === ''
    printed += chunk as string
    if (!isFirst) continue
    const { port } = new URL(api.url)
    await api.close()
    api = await startApi(port)
  }
  expect(await failure).toBe('')
  expect(printed).toBe(Array.from({ length: 12 }, (_, n) => `${n}\n`).join(''))
  await worker.close()
})
