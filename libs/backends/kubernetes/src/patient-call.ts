/** Calls of the API server that may be made again: it is asked until it is neither busy nor away, or time is up. */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { KubeAnswer } from './kube-api.ts'

/** The first pause, which doubles: as the vendor's clients, but sooner, for a warm claim takes 0.1 s. */
const PAUSE_MS = 100
/** API priority and fairness asks for one second. */
const PAUSE_MAX_MS = 1_000

const conflictSchema = z.object({ reason: z.literal('Conflict') })

/**
 * The first answer of a server that is not busy, or the last one of the time; throws as the last call did. `Retry-After` is kept to: who is told
 * to come later than that has the answer at once.
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
 * True where another try may be answered otherwise; only 5xx leaves open whether something was done. 409 Conflict is of what others change at the
 * same time, as the ResourceQuota that all creates count in (kubernetes/kubernetes#67761); of a name that is taken it is AlreadyExists.
 */
export const isBusy = ({ status, body }: KubeAnswer): boolean =>
  status === 429 || status >= 500 || (status === 409 && conflictSchema.safeParse(body).success)
