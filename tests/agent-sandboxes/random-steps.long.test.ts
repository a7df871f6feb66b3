/** More random orders than the short tier has time for. */
import { needs } from '@cofferdam/embedded/needs'
import { createSessionSandbox } from '../../libs/tools/src/sandboxes/session-sandbox.ts'
import { serveFleet } from './fleet.ts'
import { playRandomSteps } from './random-steps.ts'

needs('process-namespaces').it(
  'a sandbox does what a plain folder and bash do',
  { timeout: 1_200_000 },
  async () => {
    await using served = await serveFleet()
    const { client } = served
    await playRandomSteps(
      () => createSessionSandbox({ client, tenantId: 'acme', agentId: 'coder', backend: 'process' }),
      12,
    )
  },
)
