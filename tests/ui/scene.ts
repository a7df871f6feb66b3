/** A fleet with its API, the built pages, and a browser that looks at them. One for each file of tests. */
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { RunningApi } from '@cofferdam/api'
import { createClient, type HttpClient } from '@cofferdam/client'
import { chromium, type Browser } from 'playwright-core'
import { buildDashboard } from '../../scripts/build-dashboard.mjs'
import { chromiumPath } from '../../scripts/chromium-path.ts'
import { startFleet, type Fleet } from '../fleet.ts'
import { openPage, type OpenOptions, type SeenPage } from './seen-page.ts'

export interface Scene extends AsyncDisposable {
  fleet: Fleet
  /** Calls the API as an operator. */
  client: HttpClient
  /** Where the API serves the pages. */
  url: string
  keys: { admin: string; acme: string; readOnly: string }
  /** Opens an address of the pages in a browser context of its own. */
  open(path: string, options?: OpenOptions): Promise<SeenPage>
  /** Stops the API and starts another one over the same stores, at the same address. */
  restartApi(whileAway?: () => Promise<void>): Promise<void>
}

/**
 * Tenants `acme` and `globex` exist. Without `workers`, what is enqueued waits. `api` adds to its
 * environment.
 */
export async function openUiScene(
  options: { workers?: boolean; api?: Readonly<Record<string, string>> } = {},
): Promise<Scene> {
  await using owned = new AsyncDisposableStack()
  const [fleet] = await Promise.all([startFleet(), buildPages()])
  owned.use(fleet)
  for (const tenant of ['acme', 'globex'])
    await fleet.createTenant(tenant, {
      policy: { min_isolation: 'none' },
      caps: { tenant_daily: 100_000, agent_hourly: 100_000, concurrency: 8 },
    })
  const keys = {
    admin: (await fleet.store.keys.create('admin', 'test')).key,
    acme: (await fleet.store.keys.create({ tenant_id: 'acme' }, 'test')).key,
    readOnly: (await fleet.store.keys.create('admin', 'test', { readOnly: true })).key,
  }
  if (options.workers !== false)
    await fleet.runWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '4' })
  const startApi = (port = '0'): Promise<RunningApi> => fleet.runApi({ COFFERDAM_PORT: port, ...options.api })
  let api = await startApi()
  const { url } = api
  const browser = owned.adopt(await startBrowser(), (running) => running.close())
  const client = createClient({ baseUrl: url, apiKey: keys.admin })
  owned.defer(() => client.close())
  const resources = owned.move()
  return {
    fleet,
    client,
    url,
    keys,
    open: (path, how = {}) => openPage(browser, url, path, { as: keys.admin, ...how }),
    async restartApi(whileAway) {
      await api.close()
      await whileAway?.()
      api = await startApi(new URL(url).port)
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}

/**
 * Builds the pages as the bootstrap does: only if their sources changed. Resolves with the folder that the
 * API serves by default.
 */
export async function buildPages(): Promise<string> {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  await buildDashboard(root)
  return path.join(root, 'apps/dashboard/dist')
}

/** A headless Chromium. As root it has no sandbox of its own. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: chromiumPath() ?? '',
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  })
}
