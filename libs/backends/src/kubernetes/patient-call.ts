/** Calls of the API server that may be made again: it is asked until it is neither busy nor away, or time is up. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeAnswer } from './kube-api.ts'

/** The first pause, which doubles: as the vendor's clients, but sooner, for a warm claim takes 0.1 s. */
const PAUSE_MS = 100
/** API priority and fairness asks for one second. */
const PAUSE_MAX_MS = 1_000

/** The first answer that is not 429 or 5xx, or the last one of the time; throws as the last call did. */
export async function patiently(call: () => Promise<KubeAnswer>, forMs: number): Promise<KubeAnswer> {
  const end = performance.now() + forMs
  for (let pause = PAUSE_MS; ; pause = Math.min(pause * 2, PAUSE_MAX_MS)) {
    const isLast = performance.now() + pause > end
    const answer = await call().catch((error: unknown) => {
      if (isLast) throw error
      return null
    })
    if (answer !== null && (isLast || !(answer.status === 429 || answer.status >= 500))) return answer
    await sleep(pause)
  }
}
