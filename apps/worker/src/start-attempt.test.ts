import type { Admitted } from '@cofferdam/admission'
import type { TenantPolicy } from '@cofferdam/contract'
import type { Attempt } from '@cofferdam/executor'
import type { Taken } from '@cofferdam/queue'
import { expect, it } from 'vitest'
import { startAttempt } from './start-attempt.ts'
import type { WorkerDeps } from './worker-deps.ts'

it('holds a program back until the queue has room for its output', async () => {
  const room = Promise.resolve()
  const emitted: unknown[] = []
  const taken = { emit: (event: unknown) => void emitted.push(event), room: () => room } as unknown as Taken
  let attempt: Attempt | null = null
  const deps = {
    executor: {
      start(started: Attempt) {
        attempt = started
        return { outcome: new Promise(() => {}), gone: Promise.resolve() }
      },
    },
    checkpoints: { open: () => Promise.resolve(undefined) },
    workspaces: { open: () => undefined },
  } as unknown as WorkerDeps
  await using _started = await startAttempt(taken, {} as TenantPolicy, {} as Admitted, deps)
  expect((attempt as Attempt | null)?.onOutput('stdout', 'hello')).toBe(room)
  expect(emitted).toMatchObject([{ type: 'output', stream: 'stdout', text: 'hello' }])
})
