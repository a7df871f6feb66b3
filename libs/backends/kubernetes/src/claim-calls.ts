/** Requests about the SandboxClaims of one namespace, with retries. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import { claimIn, refused } from './claim-answers.ts'
import type { Claim } from './claim-state.ts'
import type { ReadClaim } from './claim-waits.ts'
import type { KubernetesConfig } from './config.ts'
import { NothingSent, type KubeAnswer, type KubeApi, type WatchEvent } from './kube-api.ts'
import { listClaims, type ClaimList } from './list-claims.ts'
import { isBusy, patiently } from './patient-call.ts'

export const GROUP = 'extensions.agents.x-k8s.io'
/**
 * Longest wait until a deleted claim is gone. Its pod is usually gone in a second; a busy node takes longer.
 */
const GONE_MS = 30_000
/** If the API server is busy for longer, the execution goes to another backend. */
const BUSY_MS = 3_000

/** The claim was not created and will not be, so there is nothing to delete. */
export class NothingMade extends CofferdamError {
  constructor(cause: CofferdamError) {
    super(cause.code, cause.message, { cause, details: cause.details })
  }
}

export interface ClaimBody {
  name: string
  labels: Record<string, string>
  /** The time at which the cluster deletes the claim by itself. */
  shutdownTime: string
}

/** Each call throws `backend_unavailable` for a failure that a healthy cluster would not have. */
export interface ClaimCalls {
  /**
   * Creates the claim, or updates the existing one of that name. Calls `onDoubt` for each try whose answer
   * was lost. Throws NothingMade only if no claim can exist.
   */
  make(claim: ClaimBody, onDoubt: () => void): Promise<Claim>
  /** Returns null if the claim does not exist. */
  read: ReadClaim
  /** Applies a merge patch. Returns the updated claim, or null if it does not exist. */
  patch(name: string, change: object): Promise<Claim | null>
  /** Deletes the claim and its dependents, and waits until it is gone. Returns false if there was none. */
  remove(name: string): Promise<boolean>
  list(labels: string, signal?: AbortSignal | null): Promise<ClaimList>
  watch(labels: string, version: string, seconds: number, signal: AbortSignal): AsyncGenerator<WatchEvent>
  /** Makes a short request that needs the worker's rights and the warm pool. */
  ping(signal: AbortSignal): Promise<void>
}

/** Creates the calls of the configured namespace. */
export function createClaimCalls(api: KubeApi, config: KubernetesConfig): ClaimCalls {
  const root = `/apis/${GROUP}/${config.api_version}/namespaces/${config.namespace}`
  const all = `${root}/sandboxclaims`
  const pathOf = (name: string): string => `${all}/${name}`
  /** The server must give up first. Otherwise it could create the claim after the worker gave it up. */
  const serverSeconds = Math.max(1, Math.floor(config.api_timeout_ms / 1000) - 1)

  const patched = async (name: string, change: object): Promise<KubeAnswer> =>
    await patiently(
      () => api.call('PATCH', pathOf(name), { body: change, contentType: 'application/merge-patch+json' }),
      BUSY_MS,
    )

  async function make({ name, labels, shutdownTime }: ClaimBody, onDoubt: () => void): Promise<Claim> {
    const metadata = { labels }
    const lifecycle = { shutdownTime, shutdownPolicy: 'Delete' }
    const body = {
      apiVersion: `${GROUP}/${config.api_version}`,
      kind: 'SandboxClaim',
      metadata: { ...metadata, name },
      spec: { warmPoolRef: { name: config.warm_pool }, lifecycle },
    }
    let isInDoubt = false
    const doubt = (): void => {
      isInDoubt = true
      onDoubt()
    }
    const post = async (): Promise<KubeAnswer> => {
      const answer = await api
        .call('POST', `${all}?timeout=${serverSeconds}s`, { body })
        .catch((error: unknown) => {
          if (!(error instanceof NothingSent)) doubt()
          throw error
        })
      // The server can give up on its own request and still carry it out.
      if (answer.status >= 500) doubt()
      return answer
    }
    // Repeats the request if its answer was lost. If the first try succeeded, the server answers 409.
    const answer = await patiently(post, BUSY_MS).catch((error: unknown) => {
      if (error instanceof NothingSent && !isInDoubt) throw new NothingMade(error)
      throw error
    })
    const isThere = answer.status === 409 && !isBusy(answer)
    if (answer.status >= 300 && !isThere && !isInDoubt) throw new NothingMade(refused(answer))
    if (!isThere) return claimIn(answer)
    // An earlier try made it, because each name is used once.
    return claimIn(await patched(name, { metadata, spec: { lifecycle } }))
  }

  async function remove(name: string): Promise<boolean> {
    const end = performance.now() + GONE_MS
    const get = (): Promise<KubeAnswer> => api.call('GET', pathOf(name))
    let asked = 0
    const answer = await patiently(async () => {
      asked += 1
      return await api.call('DELETE', pathOf(name), {
        body: { kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Foreground' },
      })
    }, config.api_timeout_ms)
    // If an earlier answer was lost, that try may have deleted the claim.
    if (answer.status === 404) return asked > 1
    if (answer.status >= 300) throw refused(answer)
    for (let pause = 20; ; pause = Math.min(pause * 2, 500)) {
      if ((await patiently(get, end - performance.now())).status === 404) return true
      if (performance.now() > end)
        throw new CofferdamError(
          'internal',
          `Kubernetes: the claim ${name} is still there after ${GONE_MS} ms.`,
        )
      await sleep(pause)
    }
  }

  return {
    make,
    async read(name) {
      return claimOrNone(await patiently(() => api.call('GET', pathOf(name)), BUSY_MS))
    },
    async patch(name, change) {
      return claimOrNone(await patched(name, change))
    },
    remove,
    list: (labels, signal = null) =>
      listClaims((query) => api.call('GET', `${all}?${query.toString()}`, { signal }), labels),
    watch(labels, version, seconds, signal) {
      const query = new URLSearchParams({
        watch: 'true',
        allowWatchBookmarks: 'true',
        labelSelector: labels,
        resourceVersion: version,
        timeoutSeconds: String(seconds),
      })
      return api.watch(`${all}?${query.toString()}`, signal)
    },
    async ping(signal) {
      for (const path of [`${root}/sandboxwarmpools/${config.warm_pool}`, `${all}?limit=1`]) {
        const answer = await api.call('GET', path, { signal })
        if (answer.status !== 200) throw refused(answer)
      }
    },
  }
}

const claimOrNone = (answer: KubeAnswer): Claim | null => (answer.status === 404 ? null : claimIn(answer))
