/** A fleet with one worker of the process backend, and clients of its API. */
import type { RunningApi } from '@cofferdam/api'
import { createClient, type HttpClient } from '@cofferdam/client'
import { startFleet, type Fleet } from '../fleet.ts'

export interface ServedFleet extends AsyncDisposable {
  fleet: Fleet
  api: RunningApi
  apiKey: string
  client: HttpClient
}

/** The tenant `acme` has sandboxes of the backend `process`. */
export async function serveFleet(): Promise<ServedFleet> {
  const fleet = await startFleet()
  await fleet.createTenant('acme', { caps: { tenant_daily: 100_000, agent_hourly: 100_000 } })
  const apiKey = (await fleet.store.keys.create({ tenant_id: 'acme' }, 'test')).key
  await fleet.runWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '4' })
  const api = await fleet.runApi()
  const client = createClient({ baseUrl: api.url, apiKey })
  return {
    fleet,
    api,
    apiKey,
    client,
    async [Symbol.asyncDispose]() {
      await client.close()
      await fleet[Symbol.asyncDispose]()
    },
  }
}
