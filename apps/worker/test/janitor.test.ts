import { createFakeBackend } from '@cofferdam/backends'
import {
  executionRequestSchema,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type Backend,
  type Probe,
  type WorkerId,
} from '@cofferdam/contract'
import { expect, it, vi } from 'vitest'
import { createJanitor, JANITOR_MS } from '../src/janitor.ts'

const { program, limits } = executionRequestSchema.parse({
  tenant_id: 't',
  agent_id: 'a',
  program: { type: 'script', language: 'python', source: '' },
})
const FLEET = 'aaaaaaaaaaaa'

async function leaveSandbox(backend: Backend, owner: WorkerId): Promise<void> {
  await backend.open(
    {
      sandboxId: newSandboxId(),
      executionId: newExecutionId(),
      attempt: 1,
      tenantId: 't',
      owner,
      program,
      limits,
      network: 'none',
      env: {},
      preload: null,
      reuse: 'job',
      session: null,
    },
    AbortSignal.timeout(30_000),
  )
}

function janitorOf(
  backends: Record<string, Backend>,
  self: WorkerId,
  alive: readonly WorkerId[],
  everyMs = JANITOR_MS,
) {
  const swept: unknown[] = []
  const janitor = createJanitor({
    backends: new Map(Object.entries(backends)),
    self,
    everyMs,
    liveWorkers: async () => new Set(alive),
    onSwept: (...args) => swept.push(args),
    onError: (error) => {
      throw error
    },
  })
  return { janitor, swept }
}

it('destroys the sandboxes of dead workers of its own fleet, and no others', async () => {
  await using backend = createFakeBackend()
  const [self, alive, dead, stranger] = [
    newWorkerId(FLEET),
    newWorkerId(FLEET),
    newWorkerId(FLEET),
    newWorkerId('bbbbbbbbbbbb'),
  ]
  for (const owner of [self, alive, dead, dead, stranger]) await leaveSandbox(backend, owner)
  const { janitor, swept } = janitorOf({ fake: backend }, self, [self, alive])
  await janitor[Symbol.asyncDispose]()
  expect(swept).toEqual([['fake', dead, 2]])
  expect((await backend.owners()).sort()).toEqual([self, alive, stranger].sort())
})

it('continues to sweep the other backends while one backend does not answer', async () => {
  await using backend = createFakeBackend()
  const self = newWorkerId(FLEET)
  await leaveSandbox(backend, newWorkerId(FLEET))
  const answer = Promise.withResolvers<Probe>()
  const silent: Backend = Object.create(backend, { probe: { value: () => answer.promise } })
  const { janitor } = janitorOf({ silent, fake: backend }, self, [self], 20)
  await using _closed = janitor
  const isSwept = () => vi.waitFor(async () => expect(await backend.owners()).toEqual([]), 10_000)
  await isSwept()
  await leaveSandbox(backend, newWorkerId(FLEET))
  await isSwept()
  answer.resolve({ ok: false, why: 'late', fix: 'none' })
})
