/** A loopback API server with Agent Sandbox whose pods really run. */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installGuest } from '@cofferdam/sandbox/guest'
import { listen, type ServerTls } from '@cofferdam/backend-remote/double'
import type { ApiFaults } from './api-faults.ts'
import { ApiServer } from './api-server.ts'
import type { ControllerFaults } from './claim-faults.ts'
import { Controller } from './controller.ts'
import type { Runtime } from './pod.ts'
import { ObjectStore } from './object-store.ts'
import type { Stranger } from './stranger.ts'
import type { WatchFaults } from './watch-stream.ts'

export interface KubernetesDouble extends AsyncDisposable {
  /** The API server, including its base path. */
  readonly origin: string
  /** Running pods with their claims (null: a spare). */
  running(): { pod: string; claim: string | null }[]
  claims(): { name: string; labels: Record<string, string>; shutdownTime: string }[]
  /** Sets the faults from now on. */
  fault(faults: Partial<ApiFaults & ControllerFaults & WatchFaults>): void
  /** Ends a claim's pod like a node failure. */
  killPod(claim: string): Promise<void>
  /** Stops the agent of a claim's pod. Its connection stays open and silent. */
  hangPod(claim: string): Promise<void>
  /** Gives a claim another pod, as if another claim had adopted the first one as well. */
  movePod(claim: string): Promise<void>
  /** Gives new claims no pod until the returned function is called. */
  holdClaims(): () => void
  /**
   * New claims first become ready with the address of a server that is not a pod and says `answer`, until
   * `lose` is called.
   */
  misplaceClaims(answer: string): Promise<Stranger>
  /** Number of watches that are open now, and that were ever opened. */
  watches(): { open: number; count: number }
  /** Sends a bookmark to every watch that asked for bookmarks. */
  bookmark(): void
  /** Requested paths with queries, in order. */
  readonly requests: readonly string[]
  /** Carries out the creates that `late_creates` dropped. */
  carryOut(): void
  /** Forgets old events: older watches get 410. */
  compact(): void
}

export interface KubernetesDoubleOptions {
  port?: number
  namespace?: string
  /** The initial pool. */
  pool?: string
  replicas?: number
  /** Bearer token that every call must have; null for none. */
  token?: string | null
  /** Serves https. With `ca` and `requestCert`, requires client certificates signed by that authority. */
  tls?: ServerTls & { ca?: string; requestCert?: boolean }
  /** Base path, as at a gateway for several clusters: `/k8s/clusters/c-1`; default none. */
  base?: string
  /** What the pods' image runs; default: our runtime. */
  runtime?: Runtime
}

/** Starts the double with one warm pool, whose spare pods start in the background. */
export async function startKubernetesDouble(
  options: KubernetesDoubleOptions = {},
): Promise<KubernetesDouble> {
  const { namespace = 'cofferdam-sandboxes', pool = 'cofferdam', base = '' } = options
  const store = new ObjectStore()
  const agentFolder = await mkdtemp(join(tmpdir(), 'cofferdam-double-agent-'))
  await chmod(agentFolder, 0o755)
  await installGuest(agentFolder, '/usr/bin/python3')
  const controller = new Controller(store, agentFolder, options.runtime ?? 'cofferdam')
  const api = new ApiServer(store, options.token ?? null)
  const server = await listen(
    options.port ?? 0,
    (request, response) => {
      const { url = '/' } = request
      // A path outside of the base path gets 404.
      request.url = url.startsWith(`${base}/`) ? url.slice(base.length) : '/'
      api.handle(request, response).catch((error: unknown) => {
        console.error('api server:', error)
        response.destroy()
      })
    },
    options.tls,
  )
  store.create({
    apiVersion: 'extensions.agents.x-k8s.io/v1beta1',
    kind: 'SandboxWarmPool',
    metadata: { name: pool, namespace },
    spec: { replicas: options.replicas ?? 1, sandboxTemplateRef: { name: pool } },
  })
  return {
    origin: `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${server.port}${base}`,
    running: () => controller.running(),
    claims: () =>
      store.list('sandboxclaims').map(({ metadata, spec }) => ({
        name: metadata.name,
        labels: metadata.labels ?? {},
        shutdownTime: String((spec['lifecycle'] as { shutdownTime?: string } | undefined)?.shutdownTime),
      })),
    fault(faults) {
      for (const one of [api, controller, api.watches]) Object.assign(one.faults, faults)
    },
    killPod: (claim) => controller.killPod(claim),
    hangPod: (claim) => controller.hangPod(claim),
    movePod: (claim) => controller.movePod(claim),
    holdClaims: () => controller.hold(),
    misplaceClaims: (answer) => controller.misplace(answer),
    watches: () => ({ open: api.watches.open, count: api.watches.count }),
    bookmark: () => api.watches.bookmark(),
    requests: server.requests,
    carryOut: () => api.carryOut(),
    compact: () => store.compact(),
    async [Symbol.asyncDispose]() {
      await controller.close()
      await server[Symbol.asyncDispose]()
      await rm(agentFolder, { recursive: true, force: true })
    },
  }
}
