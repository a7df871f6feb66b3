import { createFakeBackend } from '@cofferdam/backends'
import {
  executionRequestSchema,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type WorkerId,
} from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { createJanitor } from '../src/janitor.ts'

const { program, limits } = executionRequestSchema.parse({
  tenant_id: 't',
  agent_id: 'a',
  program: { type: 'script', language: 'python', source: '' },
})

it('destroys what dead workers of its own fleet left, and nothing else', async () => {
  await using backend = createFakeBackend()
  const fleet = 'aaaaaaaaaaaa'
  const [self, alive, dead, stranger] = [fleet, fleet, fleet, 'bbbbbbbbbbbb'].map((f) => newWorkerId(f)) as [
    WorkerId,
    WorkerId,
    WorkerId,
    WorkerId,
  ]
  for (const owner of [self, alive, dead, dead, stranger])
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
  const swept: unknown[] = []
  await using janitor = createJanitor({
    backends: new Map([['fake', backend]]),
    self,
    liveWorkers: async () => new Set([self, alive]),
    onSwept: (...args) => swept.push(args),
    onError: (error) => {
      throw error
    },
  })
  await janitor.sweep()
  expect(swept).toEqual([['fake', dead, 2]])
  expect((await backend.owners()).sort()).toEqual([self, alive, stranger].sort())
})
