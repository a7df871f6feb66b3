/** Retries of calls that may be repeated, while the API server is busy or does not answer. */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { KubeAnswer } from './kube-api.ts'

/** The first pause, which doubles. Shorter than in the vendor's clients: a warm claim takes 0.1 s. */
const PAUSE_MS = 100
/** API priority and fairness asks for one second. */
const PAUSE_MAX_MS = 1_000

const conflictSchema = z.object({ reason: z.literal('Conflict') })

/**
 * Calls until the server is not busy or time is up. Returns the last answer, or throws as the last call did.
 * Honours `Retry-After`: if the server asks for a longer pause than the time left, the caller gets its answer
 * at once.
 */
export async function patiently(call: () => Promise<KubeAnswer>, forMs: number): Promise<KubeAnswer> {
  const end = performance.now() + forMs
  for (let pause = PAUSE_MS; ; pause = Math.min(pause * 2, PAUSE_MAX_MS)) {
    const isLast = performance.now() + pause > end
    const answer = await call().catch((error: unknown) => {
      if (isLast) throw error
      return null
    })
    const askedMs = answer?.retryAfterMs ?? 0
    const isTooLate = askedMs > 0 && performance.now() + askedMs > end
    if (answer !== null && (isLast || isTooLate || !isBusy(answer))) return answer
    await sleep(Math.max(pause, askedMs))
  }
}

/**
 * Returns true if another try may succeed. Only 5xx leaves open whether something was done. 409 Conflict
 * comes from concurrent changes, for example of the ResourceQuota that counts creates
 * (kubernetes/kubernetes#67761). A name that is taken is AlreadyExists instead.
 */
export const isBusy = ({ status, body }: KubeAnswer): boolean =>
  status === 429 || status >= 500 || (status === 409 && conflictSchema.safeParse(body).success)
