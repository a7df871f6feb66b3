/** Says what each other kind of worker lacks for an execution that nobody in the fleet can run. */
import type { Redis } from 'ioredis'
import { keysOf } from './cell.ts'
import type { Offer } from './needs.ts'
import { kindOf } from './worker-kind.ts'

/** Enough for an operator to see the fleet, and short enough for a result. */
const LINES_MAX = 8

/**
 * What the backends of the other kinds lack, such as `docker lacks isolation=microvm`. Empty in a fleet whose
 * workers offer the same.
 */
export async function lacksOfOtherKinds(
  redis: Redis,
  own: readonly Offer[],
  need: string,
): Promise<string[]> {
  const offers = await redis.hgetall(keysOf(redis).offers)
  const ownKind = kindOf(own).name
  const lines = Object.entries(offers)
    .filter(([kind]) => kind !== ownKind)
    .flatMap(([, offer]) => offer.split('\n'))
  return [...new Set(lines.map((line) => lackOf(line, need)))]
    .filter((text) => text !== '')
    .slice(0, LINES_MAX)
}

/** Empty for a line that names no backend, and for a backend that lacks nothing. */
function lackOf(line: string, need: string): string {
  const offered = new Set(line.split(','))
  const missing = need.split(',').filter((word) => !offered.has(word))
  const backend = [...offered].find((word) => word.startsWith('backend='))?.slice('backend='.length)
  return backend === undefined || missing.length === 0 ? '' : `${backend} lacks ${missing.join(', ')}`
}
