/** Which executions a worker leaves for others, by what it offers and what the rest of the fleet offers. */
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

/** Whether it was left, and every need that another worker was looked for with. */
async function left(
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
  const isLeft = await routedElsewhere(taken, { min_isolation: floor } as TenantPolicy, deps)
  return [isLeft, needs.map((need) => need.includes('session='))]
}

it('leaves an execution in the session of its run for a worker with sessions, while there is one', async () => {
  const request = withRunSession(asked())
  expect(await left(request, { here: [SESSIONS], elsewhere: [] })).toEqual([false, []])
  expect(await left(request, { here: [PLAIN], elsewhere: [SESSIONS] })).toEqual([true, [true]])
})

it('carries it without the session where nobody has sessions, or leaves it for who can do that', async () => {
  const request = withRunSession(asked())
  expect(await left(request, { here: [PLAIN], elsewhere: [] })).toEqual([false, [true]])
  expect(await left(request, { here: [], elsewhere: [PLAIN] })).toEqual([true, [true, false]])
  // The tenant's policy rules out the only backend that has sessions.
  const strong = new Set([...COMMON, 'backend=vendor', 'isolation=jail', 'isolation=microvm'])
  const fleet = { here: [strong], elsewhere: [SESSIONS] }
  expect(await left(request, fleet, 'microvm')).toEqual([false, [true]])
  expect(await left(request, { here: [], elsewhere: [] })).toEqual([false, [true, false]])
})

it('never carries an execution without the session that it asked for', async () => {
  const request = asked({ session: { key: 'r' } })
  expect(await left(request, { here: [], elsewhere: [PLAIN] })).toEqual([false, [true]])
})
