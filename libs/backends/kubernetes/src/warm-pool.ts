/**
 * Reads and sets how many spare pods a SandboxWarmPool has, through its `scale` subresource. A caller needs
 * no other right than `get` and `patch` of `sandboxwarmpools/scale`.
 */
import { z } from 'zod'
import { parsed, refused } from './claim-answers.ts'
import { GROUP } from './claim-calls.ts'
import { kubernetesConfigSchema } from './config.ts'
import { createKubeApi, type KubeAnswer } from './kube-api.ts'

/** The server leaves `replicas` out if it is 0 (autoscaling/v1). */
const scaleSchema = z.object({
  spec: z.object({ replicas: z.int().min(0).default(0) }).default({ replicas: 0 }),
})

/**
 * Each call is one request without retries. Throws `backend_unavailable` if the API server does not answer
 * or is busy, and `sandbox_open_failed` if it refuses.
 */
export interface WarmPool {
  /** Spare pods that the pool should have. Null if there is no such pool. */
  replicas(signal?: AbortSignal): Promise<number | null>
  /** Sets the number of spare pods. Returns the pool's new target, or null if there is no such pool. */
  scale(replicas: number, signal?: AbortSignal): Promise<number | null>
}

/** Makes no request. `namespace` and `warm_pool` name the pool; the schema fills in defaults of `config`. */
export function createWarmPool(config: z.input<typeof kubernetesConfigSchema>): WarmPool {
  const settings = kubernetesConfigSchema.parse(config)
  const { namespace, warm_pool: name, api_version: version } = settings
  const api = createKubeApi(settings)
  const path = `/apis/${GROUP}/${version}/namespaces/${namespace}/sandboxwarmpools/${name}/scale`
  return {
    async replicas(signal) {
      return replicasIn(await api.call('GET', path, { signal: signal ?? null }))
    },
    async scale(replicas, signal) {
      const contentType = 'application/merge-patch+json'
      const body = { spec: { replicas } }
      return replicasIn(await api.call('PATCH', path, { body, contentType, signal: signal ?? null }))
    },
  }
}

function replicasIn(answer: KubeAnswer): number | null {
  if (answer.status === 404) return null
  if (answer.status >= 300) throw refused(answer)
  return parsed(scaleSchema, answer, 'Scale').spec.replicas
}
