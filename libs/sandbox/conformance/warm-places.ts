/** What a worker lends a backend, for conformance: memory without end, and pools that fill as they would in a worker. */
import { availableParallelism } from 'node:os'
import type { WorkerId } from '@cofferdam/contract'
import { createRefillGate, warmConfigSchema, type WarmDeps } from '../src/warm/index.ts'

/** Warm places of one owner; `config` is the `warm` section of the configuration. */
export function warmPlaces(
  owner: WorkerId,
  config: Parameters<typeof warmConfigSchema.parse>[0] = {},
): WarmDeps {
  return {
    owner,
    config: warmConfigSchema.parse(config),
    refillGate: createRefillGate(availableParallelism()),
    memory: {
      tryAcquire: () => ({ [Symbol.dispose]: () => undefined }),
      onPressure: () => undefined,
    },
  }
}
