/** Reads an environment's `depth` from the control plane. */
import type Anthropic from '@anthropic-ai/sdk'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'

/** Shorter than the interval of the scaler, which reads again in its next round. */
const READ_MS = 4_000

const statsSchema = z.object({ depth: z.int().min(0) })

/** Work items that wait to be claimed. Rejects with the SDK's error, or `protocol_violation`. */
export type ReadDepth = (environmentId: string, signal: AbortSignal) => Promise<number>

/** `client` must hold an API key: `stats` refuses environment keys. Each read is one request. */
export function createReadDepth(client: Anthropic): ReadDepth {
  return async (environmentId, signal) => {
    const options = { signal, timeout: READ_MS, maxRetries: 0 }
    const stats: unknown = await client.beta.environments.work.stats(environmentId, null, options)
    const found = statsSchema.safeParse(stats)
    if (found.success) return found.data.depth
    throw new CofferdamError('protocol_violation', 'The control plane answered statistics without a depth.', {
      cause: found.error,
    })
  }
}
