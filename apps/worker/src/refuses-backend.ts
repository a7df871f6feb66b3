/** What policy says about a backend at the moment an execution would use it: read then, not when the execution was taken. */
import type { Attempt } from '@cofferdam/executor'
import type { Taken } from '@cofferdam/queue'
import type { WorkerDeps } from './worker-deps.ts'

/** For the executor: it passes over a backend that is switched off, and asks nothing of it. */
export const refusesBackend =
  (
    { request }: Pick<Taken, 'request'>,
    { switches }: Pick<WorkerDeps, 'switches'>,
  ): NonNullable<Attempt['refusesBackend']> =>
  async (backend) =>
    (await switches.get(backend)?.refuses(request)) ?? null
