/**
 * How many executions wait and run for each group of workers, so that the groups can be scaled separately.
 * This adds no work per execution. Whenever metrics are collected, a script reads the scheduler's own state
 * for each lane and kind of worker, 10 tenants a call.
 *
 * A group is what the operator calls workers that are scaled together (COFFERDAM_WORKER_GROUP). The scheduler
 * knows kinds instead: workers that offer the same. The demand for a kind is divided among the groups with
 * workers of that kind, by their slots.
 */
import type { Redis } from 'ioredis'
import { keysOf } from './cell.ts'
import { readGroups } from './fleet-versions.ts'
import { LANES, type Lane } from './keys.ts'
import { list, run, SCRIPTS, text } from './scripts.ts'

/** Most groups that get figures. The first ones by name are kept, the others left out. */
const GROUPS_MAX = 64
/** Tenants that are read per kind. If more wait, a random sample of this size is scaled up to all of them. */
const TENANTS_MAX = 100
/** Tenants of one script call, so that none holds up the server for more than a millisecond or two. */
const PAGE = 10

export interface GroupDemand {
  group: string
  lane: Lane
  /**
   * Executions that would start if the group had free slots. An execution that several groups could run is
   * divided among them, so that the sum over all groups counts it once.
   */
  waiting: number
  /** Released to workers of the group, or running there. */
  running: number
  /** How long the oldest execution has been due, of those whose turn is next. Null when none waits. */
  oldest_age_ms: number | null
}

interface LivingWorker {
  group: string
  kind: string
  slots: number
  serves: readonly Lane[]
}

/**
 * Reads all groups with a living worker that does not drain. A worker whose last heartbeat is older than
 * `lockMs` is not living.
 */
export async function readGroupDemand(redis: Redis, lockMs: number): Promise<GroupDemand[]> {
  const workers = await livingWorkers(redis, lockMs)
  const kinds = [...new Set(workers.map(({ kind }) => kind))]
  const asked = kinds.flatMap((kind) => LANES.map((lane) => ({ kind, lane })))
  const parts = await Promise.all(
    asked.map(async ({ kind, lane }) => {
      const slots = slotsByGroup(workers.filter((one) => one.kind === kind && one.serves.includes(lane)))
      return slots.size === 0 ? [] : divide(lane, slots, await kindDemand(redis, lane, kind))
    }),
  )
  return mergeGroupDemand(parts)
}

/** Sums up figures of the same group and lane, for example of several cells. */
export function mergeGroupDemand(parts: readonly (readonly GroupDemand[])[]): GroupDemand[] {
  const found = new Map<string, GroupDemand>()
  for (const part of parts.flat()) {
    const name = `${part.group} ${part.lane}`
    const known = found.get(name)
    const ages = [known?.oldest_age_ms, part.oldest_age_ms].filter((age) => typeof age === 'number')
    found.set(name, {
      ...part,
      waiting: part.waiting + (known?.waiting ?? 0),
      running: part.running + (known?.running ?? 0),
      oldest_age_ms: ages.length === 0 ? null : Math.max(...ages),
    })
  }
  const groups = [...new Set([...found.values()].map(({ group }) => group))].toSorted().slice(0, GROUPS_MAX)
  return [...found.values()].filter(({ group }) => groups.includes(group))
}

async function livingWorkers(redis: Redis, lockMs: number): Promise<LivingWorker[]> {
  const [now, beats, workers, groups] = await Promise.all([
    nowMs(redis),
    redis.zrange(keysOf(redis).beats, 0, '-1', 'WITHSCORES'),
    redis.hgetall(keysOf(redis).workers),
    readGroups(redis),
  ])
  return beats.flatMap((worker, index) => {
    const state = workers[worker]
    if (index % 2 === 1 || state === undefined || Number(beats[index + 1]) < now - lockMs) return []
    const [, interactive, routine, , , slots, ...kind] = state.split('|')
    const lanes = LANES.filter((lane) => Number(lane === 'interactive' ? interactive : routine) > 0)
    // A worker that is short of memory reports no fillable slots. It counts for every lane, so that its group
    // still gets a share of the demand.
    const serves = lanes.length === 0 ? LANES : lanes
    const group = groups.get(worker) ?? DEFAULT_GROUP
    return Number(slots) > 0 ? [{ group, kind: kind.join('|'), slots: Number(slots), serves }] : []
  })
}

/** The group of a worker that names none. */
export const DEFAULT_GROUP = 'default'

function slotsByGroup(workers: readonly LivingWorker[]): Map<string, number> {
  const slots = new Map<string, number>()
  for (const one of workers) slots.set(one.group, (slots.get(one.group) ?? 0) + one.slots)
  return slots
}

type KindDemand = Omit<GroupDemand, 'group' | 'lane'>

async function kindDemand(redis: Redis, lane: Lane, kind: string): Promise<KindDemand> {
  const ring = `${keysOf(redis).ring}${lane}:${kind}`
  const [tenants, count, running] = await Promise.all([
    redis.zrandmember(ring, TENANTS_MAX),
    redis.zcard(ring),
    redis.hget(keysOf(redis).outs, `${lane}:${kind}`),
  ])
  let waiting = 0
  const since: number[] = []
  for (let from = 0; from < tenants.length; from += PAGE) {
    const args = [lane, kind, ...tenants.slice(from, from + PAGE)]
    const [some, first] = list(await run(redis, SCRIPTS.demand, keysOf(redis).window, args))
    waiting += Number(text(some))
    if (text(first) !== '') since.push(Number(text(first)))
  }
  return {
    waiting: tenants.length === 0 ? 0 : (waiting / tenants.length) * Math.max(count, tenants.length),
    running: Math.max(0, Number(running)),
    oldest_age_ms: since.length === 0 ? null : Math.max(0, (await nowMs(redis)) - Math.min(...since)),
  }
}

/** The clock of Redis, milliseconds since 1970. */
async function nowMs(redis: Redis): Promise<number> {
  const [seconds, micros] = await redis.time()
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
}

function divide(lane: Lane, slots: ReadonlyMap<string, number>, demand: KindDemand): GroupDemand[] {
  const total = [...slots.values()].reduce((sum, one) => sum + one, 0)
  return [...slots].map(([group, own]) => ({
    group,
    lane,
    waiting: (demand.waiting * own) / total,
    running: (demand.running * own) / total,
    oldest_age_ms: demand.oldest_age_ms,
  }))
}
