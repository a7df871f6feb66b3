/**
 * Caches tenant policy in Redis. It is read when an execution runs, not when it is enqueued.
 *
 *   a copy younger than FRESH_MS in Redis → used
 *   otherwise                             → read from Postgres, written to Redis, used
 *   Postgres away                         → a copy up to STALE_MS old is used; else `store_unavailable`
 *
 * The API deletes the copies after each change. FRESH_MS bounds how long a change by raw SQL stays unseen.
 */
import { templateInForce } from '@cofferdam/admission'
import {
  templateSchema,
  tenantCapsSchema,
  tenantPolicySchema,
  type CofferdamError,
  type ExecutionRequest,
  type Template,
  type TenantCaps,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Store } from '@cofferdam/store'
import type { Redis } from 'ioredis'
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'

/**
 * A read that runs during a change by the API can also hide the change for this long. The cost is one read of
 * Postgres per second and tenant.
 */
const FRESH_MS = 1000
/** How long executions continue with the last known policy while Postgres is away. */
const STALE_MS = 3_600_000
/**
 * Parsed copies that are kept, about 2 KB each. Until Postgres is read again, all executions of a tenant find
 * the same text, so it is parsed once.
 */
const PARSED_MAX = 1000

export interface PolicyFacts {
  tenant: TenantPolicy | null
  /** The template in force. Null when there is none, or when it does not exist. */
  template: Template | null
  /** The ID of the template in force. */
  templateId: string | undefined
  caps: TenantCaps | null
}

/** An older worker may have written the copy. Fields that it did not know get their defaults. */
const cachedSchema = z.object({
  policy: tenantPolicySchema.nullable(),
  caps: tenantCapsSchema.nullable(),
  template: templateSchema.nullable(),
  at_ms: z.number(),
})
type Cached = z.infer<typeof cachedSchema>

export interface PolicyCache {
  /**
   * Reads the policy, with the template in force for the request. Throws `store_unavailable` when Postgres is
   * away and there is no usable copy.
   */
  read(request: Pick<ExecutionRequest, 'tenant_id' | 'agent_id' | 'template_id'>): Promise<PolicyFacts>
}

/**
 * Creates the cache. Calls `onChange` for a tenant whose caps or `run_sessions` changed, because admission
 * and producers read those in Redis. This notices changes by raw SQL, and a Redis that lost its copies.
 */
export function createPolicyCache(deps: {
  redis: Redis
  store: Store
  onChange(tenantId: string): Promise<void>
  now?: () => number
}): PolicyCache {
  const now = deps.now ?? Date.now
  const parsed = new Map<string, { text: string; cached: Cached | null }>()
  const asked = new Map<string, Promise<string | null>>()
  /** Reads of Postgres under way, shared by all callers that found the same copy stale. */
  const refreshing = new Map<string, Promise<Cached>>()

  /**
   * Callers in the same event-loop turn share one read. The read is sent after the turn, so the answer is
   * never older than the call.
   */
  function readCopy(name: string, key: string, field: string): Promise<string | null> {
    const shared = asked.get(name)
    if (shared !== undefined) return shared
    const copy = deps.redis.hget(key, field)
    asked.set(name, copy)
    if (asked.size === 1) process.nextTick(() => asked.clear())
    return copy
  }

  /** The copy may be from another host, whose clock is ahead or was set back. */
  const isYoungerThan = (ms: number, { at_ms }: Cached): boolean => Math.abs(now() - at_ms) < ms

  function parse(name: string, text: string | null): Cached | null {
    if (text === null) return null
    const last = parsed.get(name)
    if (last?.text === text) return last.cached
    const cached = parseCached(text)
    if (parsed.size >= PARSED_MAX) parsed.clear()
    parsed.set(name, { text, cached })
    return cached
  }

  return {
    async read(request) {
      const { tenant_id: tenantId, template_id: named } = request
      const asNamed = await readCached(tenantId, named)
      const templateId = templateInForce(asNamed.policy, request)
      const inForce = templateId === named ? asNamed : await readCached(tenantId, templateId)
      // The older of the two copies may lack a change that the newer one has.
      const tenant = asNamed.at_ms > inForce.at_ms ? asNamed : inForce
      return { tenant: tenant.policy, caps: tenant.caps, template: inForce.template, templateId }
    },
  }

  async function readCached(tenantId: string, templateId: string | undefined): Promise<Cached> {
    const key = keyOf(tenantId)
    const field = templateId ?? ''
    const name = `${key} ${field}`
    const cached = parse(name, await readCopy(name, key, field))
    if (cached !== null && isYoungerThan(FRESH_MS, cached)) return cached
    try {
      return await refresh(tenantId, templateId, cached)
    } catch (error) {
      if (cached !== null && isYoungerThan(STALE_MS, cached) && isStoreAway(error)) return cached
      throw error
    }
  }

  /**
   * Replaces a stale copy with one read, which all executions that find this copy share. If there is no copy,
   * each execution reads by itself.
   */
  function refresh(tenantId: string, templateId: string | undefined, stale: Cached | null): Promise<Cached> {
    if (stale === null) return readAndKeep(tenantId, templateId, null)
    const name = `${tenantId}:${templateId ?? ''}`
    const running = refreshing.get(name)
    if (running !== undefined) return running
    const started = readAndKeep(tenantId, templateId, stale).finally(() => refreshing.delete(name))
    refreshing.set(name, started)
    return started
  }

  async function readAndKeep(
    tenantId: string,
    templateId: string | undefined,
    stale: Cached | null,
  ): Promise<Cached> {
    const key = keyOf(tenantId)
    const fresh = await readStore(tenantId, templateId)
    if (fresh.caps !== null && !isDeepStrictEqual(copiedOf(fresh), copiedOf(stale)))
      await deps.onChange(tenantId)
    await deps.redis
      .multi()
      .hset(key, templateId ?? '', JSON.stringify(fresh))
      .pexpire(key, STALE_MS)
      .exec()
    return fresh
  }

  async function readStore(tenantId: string, templateId: string | undefined): Promise<Cached> {
    // The time before the read, because the read may miss a change that is made meanwhile.
    const at_ms = now()
    const [tenant, template] = await Promise.all([
      deps.store.tenants.get(tenantId),
      templateId === undefined ? null : deps.store.templates.get(tenantId, templateId),
    ])
    return { policy: tenant?.policy ?? null, caps: tenant?.caps ?? null, template, at_ms }
  }
}

/** The parts that admission and the producers read in Redis. */
const copiedOf = (known: Cached | null) => [known?.caps, known?.policy?.run_sessions]

const keyOf = (tenantId: string): string => `cfd:{${tenantId}}:policy`

/** Null when the copy is unusable, for example from a newer worker. Then Postgres is read. */
function parseCached(text: string): Cached | null {
  try {
    return cachedSchema.safeParse(JSON.parse(text)).data ?? null
  } catch {
    return null
  }
}

function isStoreAway(error: unknown): boolean {
  return error instanceof Error && (error as CofferdamError).code === 'store_unavailable'
}
