/** What is left of the caps of a tenant and agent, read for headers: at most once a second and pair. */
import type { Admission } from '@cofferdam/admission'
import type { Budget } from './rate-limit-headers.ts'

/** Headers are hints: a second old is new enough, and a busy agent costs one look a second. */
const FRESH_MS = 1000
/** Pairs kept: about 2 MB. The oldest goes first. */
const MAX_PAIRS = 10_000

export interface Budgets {
  /** Null when Redis does not say; never rejects. */
  read(tenantId: string, agentId: string): Promise<Budget | null>
}

/** Makes the reader. */
export function createBudgets(deps: { admission: Pick<Admission, 'usage'>; now(): number }): Budgets {
  const known = new Map<string, { atMs: number; budget: Promise<Budget | null> }>()
  return {
    read(tenantId, agentId) {
      // Neither name holds a slash (contract, nameSchema).
      const pair = `${tenantId}/${agentId}`
      const now = deps.now()
      const present = known.get(pair)
      if (present !== undefined && now - present.atMs < FRESH_MS) return present.budget
      const budget = deps.admission.usage(tenantId, agentId).catch(() => null)
      known.delete(pair)
      known.set(pair, { atMs: now, budget })
      const [oldest] = known.keys()
      if (known.size > MAX_PAIRS && oldest !== undefined) known.delete(oldest)
      return budget
    },
  }
}
