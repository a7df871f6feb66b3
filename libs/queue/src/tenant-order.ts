/** Which tenant is next, what share each is due, and which are ahead of their share, from one snapshot. */
import type { TenantFigures, TenantTurn } from './tenant-figures.ts'

export interface TenantStanding {
  /**
   * The tenant's part of the weights of all tenants that want work, 0 to 1. 0 if it is parked and runs
   * nothing.
   */
  dueShare: number
  /**
   * The tenant's virtual time minus the clock of the kind of worker, in slot seconds divided by weight. A
   * positive value means that it got more than its due. This is the smallest value over the lanes in which it
   * waits, and over all kinds. If it waits in no lane, all lanes count. Null before its first turn.
   */
  virtualLag: number | null
  /** 1 for the tenant that is served next. Null for one that cannot be served now. */
  place: number | null
}

/** By tenant. Two tenants have the same place only in different lanes or at different kinds of workers. */
export function standings(tenants: readonly TenantFigures[]): Map<string, TenantStanding> {
  const weights = tenants.filter(wantsWork).reduce((sum, { weight }) => sum + weight, 0)
  const places = placesOf(tenants)
  return new Map(
    tenants.map((tenant) => [
      tenant.tenantId,
      {
        dueShare: wantsWork(tenant) ? tenant.weight / weights : 0,
        virtualLag: lagOf(tenant),
        place: places.get(tenant.tenantId) ?? null,
      },
    ]),
  )
}

const wantsWork = ({ running, parkedUntilMs }: TenantFigures): boolean =>
  running > 0 || parkedUntilMs === null

function lagOf({ waiting, turns }: TenantFigures): number | null {
  const here = turns.filter(({ lane }) => waiting[lane] > 0)
  const lags = (here.length > 0 ? here : turns).map(({ virtualTime, clock }) => virtualTime - clock)
  return lags.length === 0 ? null : Math.min(...lags)
}

/**
 * The best place of each tenant over the rings. Each kind of worker serves a lane in the order of virtual
 * time. Ties go by the bytes of the tenant's name, as in a sorted set of Redis.
 */
function placesOf(tenants: readonly TenantFigures[]): Map<string, number> {
  const rings = new Map<string, { name: Buffer; tenantId: string; turn: TenantTurn }[]>()
  for (const { tenantId, turns } of tenants)
    for (const turn of turns.filter(({ state }) => state === 'ring')) {
      const ring = rings.get(`${turn.lane}:${turn.kind}`) ?? []
      rings.set(`${turn.lane}:${turn.kind}`, ring)
      ring.push({ name: Buffer.from(tenantId), tenantId, turn })
    }
  const places = new Map<string, number>()
  for (const ring of rings.values()) {
    ring.sort((a, b) => a.turn.virtualTime - b.turn.virtualTime || Buffer.compare(a.name, b.name))
    for (const [index, { tenantId }] of ring.entries())
      places.set(tenantId, Math.min(places.get(tenantId) ?? Infinity, index + 1))
  }
  return places
}
