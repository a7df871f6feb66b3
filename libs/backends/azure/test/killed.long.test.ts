/** Kills a worker in each phase of its work at Azure. Another worker finds and ends everything it left. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { newWorkerId } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { createAzureBackend } from '../src/index.ts'
import { startAzurePlaces, type AzurePlaces } from './places.ts'

const WORKER = fileURLToPath(new URL('worker.ts', import.meta.url))

needs('bwrap').describe('a worker killed on its way to azure', () => {
  let places: AzurePlaces
  beforeAll(async () => {
    places = await startAzurePlaces()
  })
  afterAll(() => places[Symbol.asyncDispose]())

  it.each([
    ['custom', 'before the agent is there', '/v1/receive'],
    ['custom', 'as it hands the program over', '/v1/send'],
    ['custom', 'as it ends the session', '/.management/stopSession'],
    ['python', 'as it brings the agent', '/files'],
    ['python', 'in the middle of an execution', '/executions'],
    ['python', 'as it ends the session', '/session'],
  ] as const)('%s: %s (%s)', async (pool, _words, path) => {
    const { double } = places
    const sessions = double.pool(pool)
    const owner = newWorkerId('b3b3b3b3b3b3')
    const held = double.hold(path)
    const before = sessions.allocated
    const worker = spawn(process.execPath, [WORKER, JSON.stringify(places.settings(pool)), owner], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const gone = once(worker, 'exit')
    await held.arrived
    worker.kill('SIGKILL')
    await gone
    // The held call still arrives, and may be the one that creates the session.
    held.letGo()
    await vi.waitFor(() => expect(sessions.allocated).toBe(before + 1), { timeout: 60_000, interval: 20 })

    const other = createAzureBackend(places.settings(pool))
    await vi.waitFor(
      async () => {
        for (const left of await other.owners()) {
          expect(left).toBe(owner)
          await other.sweep(left)
        }
        expect(await sessions.list()).toEqual([])
      },
      { timeout: 60_000, interval: 50 },
    )
    // No other call arrived later and created another session.
    expect(sessions.allocated).toBe(before + 1)
  })
})
