/** Kills a worker while it attaches to a session at Azure, and checks what the next holder finds. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { newWorkerId, type Backend, type SandboxSpec } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createAzureBackend } from '../src/index.ts'
import { startAzurePlaces, type AzurePlaces } from './places.ts'
import { redisSessions, type TestSessions, jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const WORKER = fileURLToPath(new URL('worker.ts', import.meta.url))
const FLEET = 'b4b4b4b4b4b4'
const NAME = { tenantId: 't', backend: 'azure', key: 'k' }
const COUNT = python("n = globals().get('n', 0) + 1\nprint(n)")

needs('bwrap').describe('a worker killed on its way into a session at azure', () => {
  let places: AzurePlaces
  let sessions: TestSessions
  let backend: Backend
  beforeAll(async () => {
    places = await startAzurePlaces()
    sessions = await redisSessions()
    backend = createAzureBackend(places.settings('custom'), { sessions })
  })
  afterAll(async () => {
    await places[Symbol.asyncDispose]()
    await sessions[Symbol.asyncDispose]()
  })

  async function turn() {
    const spec: SandboxSpec = {
      ...jobSpec(FLEET, COUNT),
      reuse: 'session',
      session: { key: 'k', scope: 'interpreter', idleMs: null },
    }
    await using sandbox = await backend.open(spec, AbortSignal.timeout(60_000))
    return { said: await printed(sandbox, COUNT), fresh: sandbox.session?.fresh }
  }

  it.each([
    ['its pod refuses what arrives too late', '/v1/attach'],
    ['its pod is taken over from one that asked it for nothing', '/v1/receive'],
  ])('the next worker continues the session: %s (%s)', async (_words, call) => {
    const { double } = places
    expect(await turn()).toEqual({ said: '1\n', fresh: true })
    const held = double.hold(call)
    const argv = [WORKER, JSON.stringify(places.settings('custom')), newWorkerId(FLEET), sessions.url]
    const worker = spawn(process.execPath, argv, { stdio: ['ignore', 'ignore', 'inherit'] })
    const gone = once(worker, 'exit')
    await held.arrived
    worker.kill('SIGKILL')
    await gone
    await sessions.expire(NAME)
    expect(await turn()).toEqual({ said: '2\n', fresh: false })
    held.letGo()
    const entry = await sessions.find(NAME)
    expect(entry).toMatchObject({ holder: null })
    expect(await double.pool('custom').list()).toHaveLength(1)
    if (entry !== null) await backend.endSession?.(NAME, entry, AbortSignal.timeout(30_000))
    expect(await double.pool('custom').list()).toEqual([])
    await sessions.clear()
  })
})
