/** Everything that the queue has in Redis at one moment, read in one call. */
import type { Lane } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import type { Redis } from 'ioredis'

const READ = `
local found = {}
for _, key in ipairs(redis.call('KEYS', '{cofferdam}:*')) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'hash' then found[#found + 1] = { key, redis.call('HGETALL', key) }
  elseif kind == 'zset' then found[#found + 1] = { key, redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') }
  elseif kind == 'set' then
    local members = {}
    for _, member in ipairs(redis.call('SMEMBERS', key)) do
      members[#members + 1] = member
      members[#members + 1] = ''
    end
    found[#found + 1] = { key, members }
  elseif kind == 'string' then found[#found + 1] = { key, { redis.call('GET', key), '' } }
  elseif kind == 'list' then found[#found + 1] = { key, { tostring(redis.call('LLEN', key)), '' } } end
end
return cjson.encode(found)`

export interface Snapshot {
  /** Hash: field → value. Sorted set: member → score. Set: member → ''. String, list: text, length → ''. */
  at(key: string): ReadonlyMap<string, string>
  /** Keys that begin with a prefix, returned without it. */
  under(prefix: string): string[]
  record(id: string): ReadonlyMap<string, string>
  /** IDs of every execution that Redis knows. */
  ids: readonly string[]
}

const NOTHING: ReadonlyMap<string, string> = new Map()

export async function snapshot(redis: Redis): Promise<Snapshot> {
  const found = JSON.parse((await redis.eval(READ, 0)) as string) as [string, string[] | object][]
  const keys = new Map(found.map(([key, flat]) => [key, pairs(Array.isArray(flat) ? flat : [])]))
  const under = (prefix: string): string[] =>
    [...keys.keys()].filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length))
  const at = (key: string): ReadonlyMap<string, string> => keys.get(key) ?? NOTHING
  return { at, under, record: (id) => at(KEYS.record + id), ids: under(KEYS.record) }
}

function pairs(flat: readonly string[]): Map<string, string> {
  const map = new Map<string, string>()
  for (let i = 0; i < flat.length; i += 2) map.set(flat[i] ?? '', flat[i + 1] ?? '')
  return map
}

/** Every key that contains `id`, by name. */
export function placesOf(shot: Snapshot, id: string): string[] {
  const sets: string[] = []
  const look = (name: string, prefix: string): void => {
    for (const rest of shot.under(prefix))
      if (shot.at(prefix + rest).has(id)) sets.push(rest === '' ? name : `${name} ${rest}`)
  }
  look('delayed', KEYS.delayed)
  look('waiting', KEYS.waiting)
  look('backlog', KEYS.backlog)
  look('behind', KEYS.sessionQueue)
  look('hand', KEYS.assigned)
  look('out', KEYS.out)
  return sets.toSorted()
}

/** Counts a tenant's executions in one set per lane. The key of a set is the prefix and the lane. */
export function countOf(shot: Snapshot, prefix: string, lanes: readonly Lane[], tenant: string): number {
  return lanes.reduce(
    (sum, lane) =>
      sum + [...shot.at(prefix + lane).keys()].filter((id) => shot.record(id).get('t') === tenant).length,
    0,
  )
}
