/** A fleet with an API that stores its blobs in a bucket. The S3 server is a third-party package. */
import { startTestBucket, type TestBucket } from '../libs/store/test/blobs/test-bucket.ts'
import { vi } from 'vitest'
import { startFleet, type Fleet } from './fleet.ts'

export interface BucketFleet extends AsyncDisposable {
  fleet: Fleet
  bucket: TestBucket
  /** Asks the API as the tenant. */
  ask(path: string, headers?: Record<string, string>): Promise<Response>
}

/** Starts everything but workers. `outputKeys` is the text of COFFERDAM_OUTPUT_KEYS. */
export async function startBucketFleet(tenantId: string, outputKeys: string): Promise<BucketFleet> {
  await using owned = new AsyncDisposableStack()
  const bucket = owned.use(await startTestBucket())
  // The SDK of this process looks for credentials in the environment.
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test')
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test')
  owned.defer(() => void vi.unstubAllEnvs())
  const env = { ...bucket.env, COFFERDAM_OUTPUT_KEYS: outputKeys }
  const fleet = owned.use(await startFleet({ bucket: { settings: bucket.settings, env } }))
  await fleet.createTenant(tenantId, {
    policy: { min_isolation: 'none', output_retention_days: 1 },
    caps: { tenant_daily: 1000, agent_hourly: 1000 },
  })
  const { key } = await fleet.store.keys.create({ tenant_id: tenantId }, 'test')
  const api = await fleet.runApi()
  const resources = owned.move()
  return {
    fleet,
    bucket,
    ask: (path, headers = {}) =>
      fetch(`${api.url}/v1${path}`, { headers: { ...headers, authorization: `Bearer ${key}` } }),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}
