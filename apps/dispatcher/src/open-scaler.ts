/** Creates what keeps spare sandboxes, from the configuration. */
import { createWarmPool } from '@cofferdam/backend-kubernetes/warm-pool'
import type { Logger } from '@cofferdam/telemetry'
import type { DispatcherConfig, EnvironmentConfig } from './config.ts'
import { readKey } from './control-plane.ts'
import { createReadDepth, type ReadDepth } from './scale/read-depth.ts'
import { createScaler, type Scaler } from './scale/scaler.ts'

/** Null if no environment has a pool. Rejects if a key file has no key. */
export async function openScaler(
  { environments, pools }: Pick<DispatcherConfig, 'environments' | 'pools'>,
  logger: Logger,
): Promise<Scaler | null> {
  const scaled = environments.flatMap((one) => (one.pool === undefined ? [] : { ...one, pool: one.pool }))
  if (scaled.length === 0) return null
  return createScaler({
    environments: await Promise.all(
      scaled.map(async (one) => ({ id: one.id, pool: one.pool, readDepth: await depthReader(one) })),
    ),
    pools: pools.map(({ name, spare, kubernetes }) => ({
      name,
      settings: spare,
      warmPool: kubernetes === undefined ? null : createWarmPool(kubernetes),
    })),
    logger,
  })
}

async function depthReader(environment: EnvironmentConfig): Promise<ReadDepth | null> {
  if (environment.api_key_file === undefined) return null
  const { Anthropic } = await import('@anthropic-ai/sdk')
  const apiKey = await readKey(environment.api_key_file)
  return createReadDepth(
    new Anthropic({
      baseURL: environment.base_url,
      apiKey,
      authToken: null,
      defaultHeaders: environment.headers,
      logLevel: 'off',
    }),
  )
}
