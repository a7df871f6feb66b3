/**
 * Tenant policy as it stands when an execution runs, not when it was enqueued.
 *
 *   fresh in Redis (written less than FRESH_MS ago) ─► used
 *   otherwise ─► Postgres ─► written to Redis, used
 *   Postgres away ─► the stale copy, up to STALE_MS old; none ─► `store_unavailable`, and the caller fails closed
 *
 * The API deletes the keys after each change, so a change is live at the next read; FRESH_MS only bounds how long a
 * change made by raw SQL stays unseen.
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

/** Raw SQL changes, and an API change that raced with a read, are seen after at most this: one read a second and tenant. */
const FRESH_MS = 1000
/** How long executions go on with the last known policy while Postgres is away. */
const STALE_MS = 3_600_000
/** Copies kept parsed, about 2 KB each: between two reads of Postgres every execution of a tenant reads the same text. */
const PARSED_MAX = 1000

export interface PolicyFacts {
  tenant: TenantPolicy | null
  /** The template in force; null for none, or one that there is not. */
  template: Template | null
  /** Its id. */
  templateId: string | undefined
  caps: TenantCaps | null
}

/** As an older worker may have written it too: fields that it did not know take their defaults. */
const cachedSchema = z.object({
  policy: tenantPolicySchema.nullable(),
  caps: tenantCapsSchema.nullable(),
  template: templateSchema.nullable(),
  at_ms: z.number(),
})
type Cached = z.infer<typeof cachedSchema>

export interface PolicyCache {
  /**
   * With the template in force for such a request. Throws `store_unavailable` when neither Postgres nor a
   * usable copy answers.
   */
  read(request: Pick<ExecutionRequest, 'tenant_id' | 'agent_id' | 'template_id'>): Promise<PolicyFacts>
}

/**
 * Makes the cache. `onChange` hears of a tenant whose caps or `run_sessions`, which others read in Redis, differ
 * from the last known ones (raw SQL, or a Redis that lost them).
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
  /** Reads of Postgres under way, shared by all who find the same copy stale. */
  const refreshing = new Map<string, Promise<Cached>>()

  /** One question for all who ask in the same turn of the process: it is sent when that is over, so no answer is older than its question. */
  function readCopy(name: string, key: string, field: string): Promise<string | null> {
    const shared = asked.get(name)
    if (shared !== undefined) return shared
    const copy = deps.redis.hget(key, field)
    asked.set(name, copy)
    if (asked.size === 1) process.nextTick(() => asked.clear())
    return copy
  }

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
      // Of two copies the older one may be from before a change that the newer one has.
      const tenant = asNamed.at_ms > inForce.at_ms ? asNamed : inForce
      return { tenant: tenant.policy, caps: tenant.caps, template: inForce.template, templateId }
    },
  }

  async function readCached(tenantId: string, templateId: string | undefined): Promise<Cached> {
    const key = keyOf(tenantId)
    const field = templateId ?? ''
    const name = `${key} ${field}`
    const cached = parse(name, await readCopy(name, key, field))
    if (cached !== null && now() - cached.at_ms < FRESH_MS) return cached
    try {
      return await refresh(tenantId, templateId, cached)
    } catch (error) {
      if (cached !== null && isStoreAway(error)) return cached
      throw error
    }
  }

  /** A stale copy is replaced once, not by each of the executions that find it; without one everybody reads for himself. */
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
    // Taken before the read: what was changed during it must not count as seen.
    const at_ms = now()
    const [tenant, template] = await Promise.all([
      deps.store.tenants.get(tenantId),
      templateId === undefined ? null : deps.store.templates.get(tenantId, templateId),
    ])
    return { policy: tenant?.policy ?? null, caps: tenant?.caps ?? null, template, at_ms }
  }
}

/** What admission and the producers read in Redis of it. */
const copiedOf = (known: Cached | null) => [known?.caps, known?.policy?.run_sessions]

const keyOf = (tenantId: string): string => `cfd:{${tenantId}}:policy`

/** Null for what no worker of any version would have written, or a newer one did: then Postgres is asked. */
function parseCached(text: string): Cached | null {
  try {
    return cachedSchema.safeParse(JSON.parse(text)).data ?? null
  } catch {
    // Not JSON: somebody else wrote it. Postgres knows.
    return null
  }
}

function isStoreAway(error: unknown): boolean {
  return error instanceof Error && (error as CofferdamError).code === 'store_unavailable'
}
