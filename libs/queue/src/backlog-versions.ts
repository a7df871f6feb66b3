/** Counts the executions in Redis that have not ended, by the version of their records. */
import type { Redis } from 'ioredis'
import { keysOf } from './cell.ts'
import { versionOfNeed } from './record-version.ts'

/** Records read in one pipeline: some milliseconds of Redis. */
const PAGE = 500

export interface BacklogVersions {
  executions: number
  /** Version → number of executions. */
  byVersion: ReadonlyMap<number, number>
}

export async function readBacklogVersions(redis: Redis): Promise<BacklogVersions> {
  const byVersion = new Map<number, number>()
  let executions = 0
  // Newest first. Executions that are accepted meanwhile move others to later pages, so some IDs come twice.
  const seen = new Set<string>()
  for (let from = 0; ; from += PAGE) {
    const ids = (await redis.zrevrange(keysOf(redis).allLive, from, from + PAGE - 1)).filter(
      (id) => !seen.has(id),
    )
    const needs = await Promise.all(ids.map((id) => redis.hget(keysOf(redis).record + id, 'nd')))
    for (const [at, id] of ids.entries()) {
      seen.add(id)
      executions += 1
      const version = versionOfNeed(needs[at] ?? null)
      byVersion.set(version, (byVersion.get(version) ?? 0) + 1)
    }
    if (from + PAGE >= (await redis.zcard(keysOf(redis).allLive))) return { executions, byVersion }
  }
}
