/** A fleet with different workers, in which the only worker for some executions dies and restarts. */
import type { Accepted, ExecutionRequestInput } from '@cofferdam/contract'
import { needsBackend } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'
import { endingsOf, expectExactBooks, fakeRequest } from './accounts.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
})
afterAll(async () => fleet[Symbol.asyncDispose]())

const FAKE = { COFFERDAM_BACKENDS: 'fake', COFFERDAM_SLOTS: '2' }
const NONE = { COFFERDAM_BACKENDS: 'none', COFFERDAM_SLOTS: '1' }
const PROCESS = { COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '2' }
/** Lock (9 s) + stalled check (3 s) + the next check, on a slow machine. */
const RECOVERY_MS = 90_000

const python = (tenantId: string, input: Partial<ExecutionRequestInput>): ExecutionRequestInput => ({
  tenant_id: tenantId,
  agent_id: 'a',
  program: { type: 'script', language: 'python', source: 'print(1)' },
  ...input,
})

needsBackend('process').it(
  'every execution runs on a worker that can run it, and is refused only if none can',
  async () => {
    await fleet.createTenant('kinds', { policy: { min_isolation: 'none' } })
    await fleet.createTenant('floor', { policy: { min_isolation: 'jail' } })
    const [fake, jail] = await Promise.all([
      fleet.startWorker(FAKE),
      fleet.runWorker(PROCESS),
      fleet.runWorker(NONE),
    ])
    const accepted: Accepted[] = []
    const expected: string[] = []
    const put = async (request: ExecutionRequestInput, ending: string) => {
      accepted.push(await fleet.client.enqueue(request))
      expected.push(ending)
    }
    for (let i = 0; i < 4; i++) {
      await put(fakeRequest('kinds', [{ print: `${i}` }]), 'ok fake')
      await put(python('kinds', { backend: 'none' }), 'ok none')
      await put(python('kinds', { min_isolation: 'jail' }), 'ok process')
      // The scheduler does not know that this tenant requires a jail. Only the worker that claims the
      // execution does.
      await put(python('floor', {}), 'ok process')
    }
    await put(python('kinds', { backend: 'nowhere' }), 'provisioning backend_unknown')
    await put(python('kinds', { min_isolation: 'microvm' }), 'provisioning isolation_unavailable')
    const results = await endingsOf(fleet, accepted, RECOVERY_MS)
    expect(results.map((one) => `${one.ending} ${one.ok ? one.backend : one.reason}`)).toEqual(expected)
    // Whichever worker refused the execution, its caller reads what each kind of worker lacks.
    const [unknown = '', tooStrong = ''] = results.slice(-2).map((one) => one.error_message)
    expect(unknown).toContain('There is no backend "nowhere" on this worker.')
    expect(unknown).toContain('lacks backend=nowhere')
    for (const backend of ['fake', 'none', 'process'])
      expect(tooStrong).toMatch(new RegExp(`${backend} (isolates by|lacks [^;]*isolation=microvm)`))

    // The remaining worker has no free slot and no `fake` backend, and still ends the dead one's attempt.
    const lost = await fleet.client.enqueue(fakeRequest('kinds', [{ sleep_ms: 600_000 }]))
    for await (const { event } of fleet.client.stream(lost.execution_id)) if (event.type === 'started') break
    const full = await fleet.client.enqueue(
      python('kinds', {
        backend: 'none',
        program: { type: 'script', language: 'python', source: 'import time; time.sleep(600)' },
        limits: { hard_timeout_ms: 600_000 },
      }),
    )
    for await (const { event } of fleet.client.stream(full.execution_id)) if (event.type === 'started') break
    await jail.close()
    await fake.kill()
    const waiting = await fleet.client.enqueue(fakeRequest('kinds', [{ print: 'again' }]))
    expect(await fleet.client.wait(lost.execution_id, { timeoutMs: RECOVERY_MS })).toMatchObject({
      ending: 'worker_lost',
    })
    expect(await fleet.client.get(waiting.execution_id)).toMatchObject({ status: 'queued' })
    await fleet.runWorker(FAKE)
    expect(await fleet.client.wait(waiting.execution_id, { timeoutMs: RECOVERY_MS })).toMatchObject({
      ok: true,
    })
    await fleet.client.cancel(full.execution_id)
    const last = await endingsOf(fleet, [lost, full, waiting], RECOVERY_MS)
    const ofTenant = accepted.filter((_, i) => i >= 16 || i % 4 !== 3)
    await expectExactBooks(
      fleet,
      'kinds',
      [...ofTenant, lost, full, waiting],
      [...results.filter((_, i) => i >= 16 || i % 4 !== 3), ...last],
    )
  },
  300_000,
)
