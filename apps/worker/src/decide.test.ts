/** Which executions a worker routes to other workers, given its own backends and those of the fleet. */
import {
  executionRequestSchema,
  withRunSession,
  type ExecutionRequest,
  type ExecutionRequestInput,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { expect, it } from 'vitest'
import { routedElsewhere } from './decide.ts'
import type { WorkerDeps } from './worker-deps.ts'

const COMMON = ['program=script', 'language=python', 'network=none']
const PLAIN = new Set([...COMMON, 'backend=none'])
const SESSIONS = new Set([...COMMON, 'backend=docker', 'isolation=jail', 'session=files'])

const asked = (more: Partial<ExecutionRequestInput> = {}): ExecutionRequest =>
  executionRequestSchema.parse({
    tenant_id: 't',
    agent_id: 'a',
    run_id: 'r',
    program: { type: 'script', language: 'python', source: '' },
    ...more,
  })

/** Whether the execution was routed, and for each search for a worker, whether sessions were required. */
async function routed(
  request: ExecutionRequest,
  fleet: { here: readonly Set<string>[]; elsewhere: readonly Set<string>[] },
  floor: TenantPolicy['min_isolation'] = 'none',
) {
  const needs: string[] = []
  const taken = {
    request,
    route: async (need: string) => {
      needs.push(need)
      return fleet.elsewhere.some((offer) => need.split(',').every((word) => offer.has(word)))
    },
  } as unknown as Taken
  const deps = { offers: () => fleet.here } as unknown as WorkerDeps
  const isRouted = await routedElsewhere(taken, { min_isolation: floor } as TenantPolicy, deps)
  return [isRouted, needs.map((need) => need.includes('session='))]
}

it('routes an execution with a run session to a worker with sessions if there is one', async () => {
  const request = withRunSession(asked())
  expect(await routed(request, { here: [SESSIONS], elsewhere: [] })).toEqual([false, []])
  expect(await routed(request, { here: [PLAIN], elsewhere: [SESSIONS] })).toEqual([true, [true]])
})

it('runs an execution without its run session when no suitable worker has sessions', async () => {
  const request = withRunSession(asked())
  expect(await routed(request, { here: [PLAIN], elsewhere: [] })).toEqual([false, [true]])
  expect(await routed(request, { here: [], elsewhere: [PLAIN] })).toEqual([true, [true, false]])
  // The tenant's policy rules out the only backend that has sessions.
  const strong = new Set([...COMMON, 'backend=vendor', 'isolation=jail', 'isolation=microvm'])
  const fleet = { here: [strong], elsewhere: [SESSIONS] }
  expect(await routed(request, fleet, 'microvm')).toEqual([false, [true]])
  expect(await routed(request, { here: [], elsewhere: [] })).toEqual([false, [true, false]])
})

it('never runs an execution without the session that its request names', async () => {
  const request = asked({ session: { key: 'r' } })
  expect(await routed(request, { here: [], elsewhere: [PLAIN] })).toEqual([false, [true]])
})
