/** Figures of several cells as those of one fleet. */
import type { LaneStats, QueueStats } from '../queue-stats.ts'
import type { TenantsSnapshot } from '../tenant-figures.ts'
import type { Lane } from '../keys.ts'

const sumOf = (figures: readonly number[]): number => figures.reduce((sum, one) => sum + one, 0)

export function mergeStats(all: readonly QueueStats[], away: number[]): QueueStats {
  const lane = (name: Lane): LaneStats => {
    const figures = all.map(({ lanes }) => lanes[name])
    const ages = figures.flatMap(({ oldest_age_ms: age }) => (age === null ? [] : [age]))
    return {
      queued: sumOf(figures.map((one) => one.queued)),
      delayed: sumOf(figures.map((one) => one.delayed)),
      running: sumOf(figures.map((one) => one.running)),
      oldest_age_ms: ages.length === 0 ? null : Math.max(...ages),
      window: sumOf(figures.map((one) => one.window)),
    }
  }
  return {
    lanes: { interactive: lane('interactive'), routine: lane('routine') },
    workers: all.flatMap(({ workers }) => workers),
    outbox: sumOf(all.map(({ outbox }) => outbox)),
    callbacks: {
      due: sumOf(all.map(({ callbacks }) => callbacks.due)),
      retrying: sumOf(all.map(({ callbacks }) => callbacks.retrying)),
    },
    cells_away: away,
  }
}

/**
 * Each cell has its own virtual clocks, so turns can be compared only inside a cell. Therefore this names
 * each kind of worker `<cell>/<kind>`.
 */
export function mergeTenants(
  all: readonly { cell: number; answer: TenantsSnapshot }[],
  away: readonly number[],
): TenantsSnapshot {
  return {
    atMs: Math.max(...all.map(({ answer }) => answer.atMs)),
    tenants: all.flatMap(({ cell, answer }) =>
      answer.tenants.map((tenant) => ({
        ...tenant,
        turns: tenant.turns.map((turn) => ({ ...turn, kind: `${cell}/${turn.kind}` })),
      })),
    ),
    held: all.flatMap(({ answer }) => answer.held),
    complete: away.length === 0 && all.every(({ answer }) => answer.complete),
  }
}
