/**
 * What the scheduler knows of every tenant that has executions waiting or running. Executions update no
 * counters for this. The scripts read the scheduler's own state, one page per call, so that no call holds up
 * the server. Each figure is therefore as of the moment when its page was read.
 *
 * Cost: reads at most `EXAMINED_TENANTS` tenants, `PAGE` per call. A call for 100 tenants takes the server 2
 * to 3 ms on a slow core, so 10,000 tenants take 100 such calls.
 */
import type { Redis } from 'ioredis'
import type { Guard } from './connect.ts'
import { keysOf } from './cell.ts'
import { LANES, type Lane } from './keys.ts'
import { list, numberOrNull, run, SCRIPTS, text, type Reply } from './scripts.ts'

/** Most tenants read for one snapshot. */
export const EXAMINED_TENANTS = 10_000
/** Tenants or IDs of one script call. */
const PAGE = 100
/** Tenants or IDs that one call lists without reading their state. */
const NAMES = 1000
/** Most executions whose tenant is looked up. */
const EXAMINED_IDS = 20_000

/** A tenant's turn at one kind of worker in one lane. */
export interface TenantTurn {
  lane: Lane
  kind: string
  /**
   * Slot seconds that the tenant used at this kind, divided by the tenant's weight. The lowest value goes
   * first.
   */
  virtualTime: number
  /** Virtual time of the kind: that of the tenant served last. */
  clock: number
  /** `ring`: may be served. `share`: leaves the remaining slots to others. `out`: may not be served now. */
  state: 'ring' | 'share' | 'out'
}

export interface TenantFigures {
  tenantId: string
  /** Due executions that no slot was given to yet. */
  waiting: Record<Lane, number>
  /** Not due yet. */
  delayed: number
  /** Holding a slot: released to the workers, or running there. */
  running: number
  /** Milliseconds since 1970. Null when the tenant is not parked. */
  parkedUntilMs: number | null
  weight: number
  concurrency: number
  maxQueued: number
  turns: TenantTurn[]
}

export interface TenantsSnapshot {
  /** Clock of Redis when the last page was read, milliseconds since 1970. */
  atMs: number
  /** Every tenant with something waiting or running. */
  tenants: TenantFigures[]
  /** Executions that a worker has now, each with its tenant and the moment when the worker took it. */
  held: { tenantId: string; sinceMs: number }[]
  /** False when there were more tenants or running executions than are read. The others are missing. */
  complete: boolean
}

export async function readTenants(redis: Redis, guard: Guard): Promise<TenantsSnapshot> {
  const { ids, isCut } = await outstandingIds(redis, guard)
  const owners = (await inPages(ids, (page) => runList(redis, guard, SCRIPTS.owners, page))).map(list)
  const names = new Set(owners.map(([tenant]) => text(tenant)))
  for (const lane of LANES) await addQueued(redis, guard, keysOf(redis).queued + lane, names)
  const examined = [...names].slice(0, EXAMINED_TENANTS)
  let atMs = 0
  const replies = await inPages(examined, async (page) => {
    const [now, ...tenants] = await runList(redis, guard, SCRIPTS.tenants, page)
    atMs = numberOrNull(now) ?? atMs
    return tenants
  })
  const tenants = replies.map(figuresOf).filter(({ waiting, running }) => hasWork(waiting) || running > 0)
  const held = owners.flatMap(([tenant, since]) => {
    const sinceMs = numberOrNull(since)
    return sinceMs === null ? [] : [{ tenantId: text(tenant), sinceMs }]
  })
  return { atMs, tenants, held, complete: examined.length === names.size && !isCut }
}

/** Since when the oldest waiting execution of each tenant has been due. A tenant without one is left out. */
export async function readOldest(
  redis: Redis,
  guard: Guard,
  tenantIds: readonly string[],
): Promise<Map<string, number>> {
  const found = await inPages(tenantIds, (page) => runList(redis, guard, SCRIPTS.oldest, page))
  return new Map(
    tenantIds.flatMap((tenant, index) => {
      const since = numberOrNull(found[index])
      return since === null ? [] : [[tenant, since] as const]
    }),
  )
}

export const hasWork = (waiting: Record<Lane, number>): boolean =>
  waiting.interactive > 0 || waiting.routine > 0

/**
 * Executions that hold a slot, are assigned to a worker, or are delayed. Their tenants may have no backlog,
 * and are then found only here. A delayed execution matters only if others of its session wait behind it.
 * Such ones are few, so one page of delayed ones is enough. `isCut`: more executions hold a slot or are
 * assigned than are read.
 */
async function outstandingIds(redis: Redis, guard: Guard): Promise<{ ids: string[]; isCut: boolean }> {
  const workers = await guard(() => redis.zrange(keysOf(redis).beats, 0, '-1'))
  const delayed = LANES.map((lane) => keysOf(redis).delayed + lane)
  const others = LANES.flatMap((lane) => [
    keysOf(redis).out + lane,
    ...workers.map((worker) => `${keysOf(redis).assigned}${lane}:${worker}`),
  ])
  const ids = new Set<string>()
  for (const key of delayed)
    for (const id of await guard(() => redis.zrange(key, 0, String(NAMES - 1)))) ids.add(id)
  for (const key of others) {
    const left = EXAMINED_IDS - ids.size
    // Reads one ID more than fits. If it exists, the list is cut.
    for (const id of await guard(() => redis.zrange(key, 0, String(left)))) ids.add(id)
    if (ids.size > EXAMINED_IDS) return { ids: [...ids], isCut: true }
  }
  return { ids: [...ids], isCut: false }
}

/** Adds the tenants with a backlog in a lane. All have the same score, so they are in the order of names. */
async function addQueued(redis: Redis, guard: Guard, key: string, names: Set<string>): Promise<void> {
  let from = '-'
  while (names.size <= EXAMINED_TENANTS) {
    const start = from
    const page = await guard(() => redis.zrangebylex(key, start, '+', 'LIMIT', 0, NAMES))
    for (const name of page) names.add(name)
    const last = page.at(-1)
    if (last === undefined || page.length < NAMES) return
    from = `(${last}`
  }
}

/** Reads one page after the other, so that the server can serve other clients in between. */
async function inPages(
  names: readonly string[],
  read: (page: readonly string[]) => Promise<Reply[]>,
): Promise<Reply[]> {
  const found: Reply[] = []
  for (let from = 0; from < names.length; from += PAGE)
    found.push(...(await read(names.slice(from, from + PAGE))))
  return found
}

const runList = async (
  redis: Redis,
  guard: Guard,
  script: (typeof SCRIPTS)['owners'],
  args: readonly string[],
): Promise<Reply[]> => list(await guard(() => run(redis, script, keysOf(redis).window, args)))

function figuresOf(reply: Reply): TenantFigures {
  const [tenant, out, interactive, routine, delayed, parked, weight, concurrency, maxQueued, turns] =
    list(reply)
  const count = (value: Reply | undefined): number => Math.max(0, numberOrNull(value) ?? 0)
  return {
    tenantId: text(tenant),
    waiting: { interactive: count(interactive), routine: count(routine) },
    delayed: count(delayed),
    running: count(out),
    parkedUntilMs: numberOrNull(parked),
    weight: count(weight),
    concurrency: count(concurrency),
    maxQueued: count(maxQueued),
    turns: turnsOf(list(turns)),
  }
}

function turnsOf(flat: readonly Reply[]): TenantTurn[] {
  const turns: TenantTurn[] = []
  for (let at = 0; at < flat.length; at += 5) {
    const [lane, kind, virtualTime, clock, state] = flat.slice(at, at + 5).map(text)
    turns.push({
      lane: lane as Lane,
      kind: kind ?? '',
      virtualTime: Number(virtualTime),
      clock: Number(clock),
      state: state as TenantTurn['state'],
    })
  }
  return turns
}
