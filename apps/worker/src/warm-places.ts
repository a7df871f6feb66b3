/** What the worker lends its backends so that sandboxes wait before they are needed: memory, turns to start, settings. */
import { availableParallelism } from 'node:os'
import { createRefillGate, type WarmConfig, type WarmDeps } from '@cofferdam/backends'
import type { Backend, WorkerId } from '@cofferdam/contract'
import type { BackendReport, MemoryBudget } from '@cofferdam/executor'
import type { Instruments } from '@cofferdam/telemetry'

/** One set for all backends of the worker. */
export function warmPlaces(deps: {
  owner: WorkerId
  memory: MemoryBudget
  config: WarmConfig
  instruments: Instruments
  onSession: NonNullable<WarmDeps['onSession']>
}): WarmDeps {
  return {
    owner: deps.owner,
    memory: deps.memory,
    refillGate: createRefillGate(availableParallelism()),
    config: deps.config,
    observe: (event) => deps.instruments.slotEvent(event),
    onSession: (name, state) => deps.onSession(name, state),
  }
}

/** Lets the backend that `auto` will use start what should stand ready; the others start at their first execution. */
export function prewarmPreferred(
  backends: ReadonlyMap<string, Backend>,
  reports: readonly BackendReport[],
): void {
  const preferred = reports.find(({ probe }) => probe.ok)
  if (preferred !== undefined) backends.get(preferred.name)?.prewarm?.()
}
