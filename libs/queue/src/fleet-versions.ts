/**
 * Which version runs where: each API and worker process writes its version to one hash, and renews the entry
 * while it lives. `cofferdam upgrade --check` reads it.
 */
import type { Redis } from 'ioredis'
import { z } from 'zod'
import { keysOf } from './cell.ts'
import { RECORD_VERSION } from './record-version.ts'

const RENEW_MS = 20_000
/** Three missed renewals. */
const STALE_AFTER_MS = 3 * RENEW_MS

const entrySchema = z.looseObject({
  at_ms: z.number(),
  role: z.string(),
  version: z.string(),
  schema: z.number(),
  records: z.number(),
  group: z.string().optional(),
})

export interface ProcessVersion {
  /** `api` or `worker`. */
  role: string
  id: string
  /** Version of the process's packages. Null for a worker that is too old to announce it. */
  version: string | null
  /** Number of the newest migration that it knows. Null like `version`. */
  schema: number | null
  /** Newest version of records that it reads. */
  records: number
}

/** Announces this process now and every 20 s, until disposed. */
export function announceVersion(deps: {
  redis: Redis
  role: 'api' | 'worker'
  id: string
  version: string
  schema: number
  /** The worker's group (group-demand.ts). Undefined for an API process. */
  group?: string
  onError(this: void, error: unknown): void
}): AsyncDisposable {
  const { redis, role, id, version, schema, group, onError } = deps
  const tell = async () => {
    const entry = { at_ms: Date.now(), role, version, schema, records: RECORD_VERSION, group }
    await redis.hset(keysOf(redis).versions, id, JSON.stringify(entry))
  }
  let told = tell().catch(onError)
  const timer = setInterval(() => {
    told = tell().catch(onError)
  }, RENEW_MS)
  timer.unref()
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await told
      await redis.hdel(keysOf(redis).versions, id).catch(onError)
    },
  }
}

/**
 * All processes that announced themselves within a minute, and all other workers with heartbeats, whose
 * version is too old for announcements. Removes the entries of dead processes.
 */
export async function readVersions(redis: Redis): Promise<ProcessVersion[]> {
  const [entries, workers] = await Promise.all([
    redis.hgetall(keysOf(redis).versions),
    redis.zrange(keysOf(redis).beats, 0, '-1'),
  ])
  const found: ProcessVersion[] = []
  for (const [id, json] of Object.entries(entries)) {
    const { at_ms: atMs, role, version, schema, records } = entrySchema.parse(JSON.parse(json))
    if (Date.now() - atMs > STALE_AFTER_MS) await redis.hdel(keysOf(redis).versions, id)
    else found.push({ role, id, version, schema, records })
  }
  const known = new Set(found.map(({ id }) => id))
  for (const id of workers)
    if (!known.has(id)) found.push({ role: 'worker', id, version: null, schema: null, records: 1 })
  return found.toSorted((a, b) => a.role.localeCompare(b.role) || a.id.localeCompare(b.id))
}

/** The group of each worker that has one (COFFERDAM_WORKER_GROUP), by the worker's ID. */
export async function readGroups(redis: Redis): Promise<ReadonlyMap<string, string>> {
  const entries = await redis.hgetall(keysOf(redis).versions)
  return new Map(
    Object.entries(entries).flatMap(([id, json]) => {
      const { group } = entrySchema.parse(JSON.parse(json))
      return group === undefined ? [] : [[id, group] as const]
    }),
  )
}
