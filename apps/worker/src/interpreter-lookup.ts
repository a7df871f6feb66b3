/**
 * Looks up a tenant's AgentCore code interpreter in Postgres. IDs are cached for FRESH_MS, but a missing ID
 * is not, so that a tenant runs as soon as it is provisioned. While Postgres is away the last known IDs are
 * used: that is safe, because an interpreter never moves to another tenant.
 */
import type { Interpreters } from '@cofferdam/backends'
import { isCofferdamError } from '@cofferdam/contract'
import type { CodeInterpreters, WantedInterpreter } from '@cofferdam/store'

/** A replaced ID is noticed after this time, or when the service no longer knows it. */
const FRESH_MS = 30_000
/** A 404 is ignored this long after READY: the data plane can lag behind the control plane. */
const SETTLE_MS = 120_000
/** About 200 bytes each. The service allows 1,000 in an account. */
const KEPT_MAX = 2000

/** Creates the lookup for the backends. */
export function createInterpreterLookup(deps: {
  rows: Pick<CodeInterpreters, 'find' | 'forget' | 'list'>
  /** The author in the event that records a forgotten ID. */
  actor: string
  now?: () => number
}): Interpreters {
  const now = deps.now ?? Date.now
  const kept = new Map<string, { id: string; atMs: number }>()
  const keyOf = (tenantId: string, environment: string): string => `${environment} ${tenantId}`

  return {
    async find(tenantId, environment) {
      const key = keyOf(tenantId, environment)
      const known = kept.get(key)
      if (known !== undefined && now() - known.atMs < FRESH_MS) return known.id
      try {
        const id = await deps.rows.find(tenantId, environment)
        if (kept.size >= KEPT_MAX) kept.clear()
        if (id === null) kept.delete(key)
        else kept.set(key, { id, atMs: now() })
        return id
      } catch (error) {
        if (known !== undefined && isCofferdamError(error) && error.code === 'store_unavailable')
          return known.id
        throw error
      }
    },
    async forget(tenantId, environment, id) {
      kept.delete(keyOf(tenantId, environment))
      const row = (await deps.rows.list({ tenantId })).find((one) => one.environment === environment)
      const isYoung = now() - Date.parse(row?.provisioned_at ?? '') < SETTLE_MS
      if (!isYoung) await deps.rows.forget(tenantId, environment, id, deps.actor)
    },
    async all() {
      const ids: string[] = []
      for (let after: WantedInterpreter | undefined; ;) {
        const page = await deps.rows.list(after === undefined ? {} : { after })
        ids.push(...page.flatMap(({ interpreter_id: id }) => id ?? []))
        after = page.at(-1)
        if (after === undefined) return ids
      }
    },
  }
}
