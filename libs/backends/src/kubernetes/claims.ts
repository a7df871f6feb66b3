/**
 * Sandboxes by SandboxClaim (Agent Sandbox, extensions.agents.x-k8s.io).
 *
 *   create ──watch from its version──▶ Ready, with a pod's address        409 on a repeated create: it is ours, adopt it
 *      │ a reason that does not heal, or the deadline ─▶ deleted, told
 *      │ watch ended, or 410 Gone ─▶ read the claim, watch on from there
 *
 * Its `shutdownTime` is the backstop for a worker that died; the worker itself deletes it. A session's claim has no owner's
 * label, so that no janitor takes it for what a dead worker left: the registry says who may use it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, type SandboxId, type SessionId, type WorkerId } from '@cofferdam/contract'
import { z } from 'zod'
import type { KubernetesConfig } from './config.ts'
import type { KubeAnswer, KubeApi } from './kube-api.ts'

const GROUP = 'extensions.agents.x-k8s.io'
export const OWNER_LABEL = 'cofferdam.dev/owner'
const SLOT_LABEL = 'cofferdam.dev/slot'
const SESSION_LABEL = 'cofferdam.dev/session'

/** Reasons of `Ready: False` that no waiting heals (v1.0.x; the official clients give up on the same). */
const TERMINAL = new Set([
  'InvalidMetadata',
  'EnvVarsInjectionRejected',
  'VolumeClaimTemplatesError',
  'ClaimExpired',
  'SandboxExpired',
  'WarmPoolNotFound',
  'TemplateNotFound',
  'InvalidConfiguration',
  'PodFailed',
  'PodSucceeded',
])
/** One watch; the server ends it, and a half-open connection is noticed. */
const WATCH_SECONDS = 30
/** Pause after a watch that ended at once. */
const REWATCH_MS = 100
/** A pod whose first process ended with its channel is gone in a second; a node that is busy takes longer. */
const GONE_MS = 30_000
const PAGE = 200

const claimSchema = z.object({
  metadata: z.object({
    name: z.string(),
    resourceVersion: z.string(),
    labels: z.record(z.string(), z.string()).optional(),
    deletionTimestamp: z.string().optional(),
  }),
  status: z
    .object({
      conditions: z
        .array(
          z.object({
            type: z.string(),
            status: z.string(),
            reason: z.string().optional(),
            message: z.string().optional(),
          }),
        )
        .optional(),
      sandbox: z.object({ name: z.string().optional(), podIPs: z.array(z.string()).optional() }).optional(),
    })
    .optional(),
})
type Claim = z.output<typeof claimSchema>
const listSchema = z.object({
  metadata: z.object({ continue: z.string().optional() }).optional(),
  items: z.array(claimSchema),
})
const statusSchema = z.object({ reason: z.string().optional(), message: z.string().optional() })

/** A pod that is ours. */
export interface ClaimedPod {
  claim: string
  /** The Sandbox's and the pod's name: what its pod.py answers to. */
  name: string
  ip: string
}

/** What a claim is made for: it is named after `slot`, and belongs to a worker or to a session. */
export type ClaimWish = { slot: SandboxId } & ({ owner: WorkerId } | { session: SessionId })

/** The name of the claim that is made for it. */
export const claimName = (slot: SandboxId): string => `cofferdam-${slot.replaceAll('_', '-')}`

/** The claim that a ref's or an entry's handle names; null when it names none of ours. */
export function claimOf({ claim }: Record<string, string | number>): string | null {
  return typeof claim === 'string' && /^cofferdam-[a-z0-9-]{1,64}$/.test(claim) ? claim : null
}

export interface Claims {
  /** Throws `sandbox_open_failed` | `backend_unavailable` or the reason of `signal`; the claim is deleted then. */
  acquire(wish: ClaimWish, lifeMs: number, signal: AbortSignal): Promise<ClaimedPod>
  /** Moves the backstop to so long from now. Throws `sandbox_lost` when the claim is gone. */
  keep(claim: string, lifeMs: number): Promise<void>
  /** The same for a claim that was acquired before; its pod, or null when it is gone, going or not to be had any more. */
  find(claim: string, lifeMs: number): Promise<ClaimedPod | null>
  /** Deletes it with all that hangs on it, and resolves when the API server knows it no more. False when there was none. */
  release(claim: string): Promise<boolean>
  list(owner: WorkerId | null): Promise<{ claim: string; owner: WorkerId }[]>
  /** One short call that needs the rights and the pool. */
  ping(signal: AbortSignal): Promise<void>
}

/** Creates the claims of one namespace. */
export function createClaims(api: KubeApi, config: KubernetesConfig): Claims {
  const root = `/apis/${GROUP}/${config.api_version}/namespaces/${config.namespace}`
  const claimsPath = `${root}/sandboxclaims`
  const pathOf = (claim: string): string => `${claimsPath}/${claim}`

  async function create(name: string, wish: ClaimWish, lifeMs: number): Promise<Claim> {
    const whose = 'owner' in wish ? { [OWNER_LABEL]: wish.owner } : { [SESSION_LABEL]: wish.session }
    const body = {
      apiVersion: `${GROUP}/${config.api_version}`,
      kind: 'SandboxClaim',
      metadata: { name, labels: { ...whose, [SLOT_LABEL]: wish.slot } },
      spec: {
        warmPoolRef: { name: config.warm_pool },
        lifecycle: { shutdownTime: timeIn(lifeMs), shutdownPolicy: 'Delete' },
      },
    }
    const answer = await api.call('POST', claimsPath, { body })
    // An answer that was lost, and a name that only we use.
    if (answer.status === 409) return await read(name)
    return claimIn(answer)
  }

  async function read(name: string): Promise<Claim> {
    return claimIn(await api.call('GET', pathOf(name)))
  }

  /** Follows the claim until it is ready or never will be. */
  async function untilReady(first: Claim, signal: AbortSignal): Promise<ClaimedPod> {
    let claim = first
    for (;;) {
      const pod = podOf(claim)
      if (pod !== null) return pod
      signal.throwIfAborted()
      const next = await nextState(claim, signal)
      claim = next ?? (await reread(claim.metadata.name, signal))
    }
  }

  async function reread(name: string, signal: AbortSignal): Promise<Claim> {
    await sleep(REWATCH_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
    return await read(name)
  }

  /** The claim's first state beyond `seen` that decides; null when the watch ended before. */
  async function nextState(seen: Claim, signal: AbortSignal): Promise<Claim | null> {
    const stop = new AbortController()
    const query = new URLSearchParams({
      watch: 'true',
      fieldSelector: `metadata.name=${seen.metadata.name}`,
      resourceVersion: seen.metadata.resourceVersion,
      timeoutSeconds: String(WATCH_SECONDS),
    })
    const quiet = AbortSignal.timeout((WATCH_SECONDS + 10) * 1000)
    try {
      const all = AbortSignal.any([signal, stop.signal, quiet])
      for await (const event of api.watch(`${claimsPath}?${query.toString()}`, all)) {
        // 410 Gone comes as an event too: our version is older than the server's memory.
        if (event.type === 'ERROR') return null
        if (event.type === 'DELETED')
          throw new CofferdamError(
            'sandbox_open_failed',
            'Kubernetes: the claim was deleted while it was waited for.',
          )
        const parsed = claimSchema.safeParse(event.object)
        if (parsed.success && event.type !== 'BOOKMARK' && podOf(parsed.data) !== null) return parsed.data
      }
      return null
    } catch (error) {
      signal.throwIfAborted()
      if (quiet.aborted) return null
      throw error
    } finally {
      stop.abort()
    }
  }

  async function prolong(claim: string, lifeMs: number): Promise<KubeAnswer> {
    const answer = await api.call('PATCH', pathOf(claim), {
      body: { spec: { lifecycle: { shutdownTime: timeIn(lifeMs) } } },
      contentType: 'application/merge-patch+json',
    })
    if (answer.status >= 300 && answer.status !== 404) throw refused(answer)
    return answer
  }

  async function release(claim: string): Promise<boolean> {
    const answer = await api.call('DELETE', pathOf(claim), {
      body: { kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Foreground' },
    })
    if (answer.status === 404) return false
    if (answer.status >= 300) throw refused(answer)
    const end = performance.now() + GONE_MS
    for (let pause = 20; ; pause = Math.min(pause * 2, 500)) {
      if ((await api.call('GET', pathOf(claim))).status === 404) return true
      if (performance.now() > end)
        throw new CofferdamError(
          'internal',
          `Kubernetes: the claim ${claim} is still there after ${GONE_MS} ms.`,
        )
      await sleep(pause)
    }
  }

  return {
    async acquire(wish, lifeMs, signal) {
      const name = claimName(wish.slot)
      try {
        return await untilReady(await create(name, wish, lifeMs), signal)
      } catch (error) {
        await release(name)
        throw error
      }
    },
    async keep(claim, lifeMs) {
      if ((await prolong(claim, lifeMs)).status === 404)
        throw new CofferdamError('sandbox_lost', `Kubernetes: the claim ${claim} is gone.`)
    },
    async find(claim, lifeMs) {
      const answer = await prolong(claim, lifeMs)
      if (answer.status === 404) return null
      const found = claimIn(answer)
      return found.metadata.deletionTimestamp === undefined && endOf(found) === null ? podOf(found) : null
    },
    release,
    async list(owner) {
      const found: { claim: string; owner: WorkerId }[] = []
      const selector = owner === null ? OWNER_LABEL : `${OWNER_LABEL}=${owner}`
      for (let next = ''; ;) {
        const query = new URLSearchParams({ labelSelector: selector, limit: String(PAGE) })
        if (next !== '') query.set('continue', next)
        const answer = await api.call('GET', `${claimsPath}?${query.toString()}`)
        if (answer.status !== 200) throw refused(answer)
        const page = parsed(listSchema, answer, 'list of SandboxClaims')
        for (const { metadata } of page.items)
          found.push({ claim: metadata.name, owner: metadata.labels?.[OWNER_LABEL] as WorkerId })
        next = page.metadata?.continue ?? ''
        if (next === '') return found
      }
    },
    async ping(signal) {
      for (const path of [`${root}/sandboxwarmpools/${config.warm_pool}`, `${claimsPath}?limit=1`]) {
        const answer = await api.call('GET', path, { signal })
        if (answer.status !== 200) throw refused(answer)
      }
    },
  }
}

const timeIn = (ms: number): string => new Date(Date.now() + ms).toISOString().replace(/\.\d+Z$/, 'Z')

/** The pod of a claim that is ready; null while it is not. Throws for what never will be. */
function podOf(claim: Claim): ClaimedPod | null {
  const end = endOf(claim)
  if (end !== null) throw new CofferdamError('sandbox_open_failed', `Kubernetes: the claim ended with ${end}`)
  const { name, podIPs } = claim.status?.sandbox ?? {}
  const ip = podIPs?.[0]
  if (readinessOf(claim)?.status !== 'True' || name === undefined || ip === undefined) return null
  return { claim: claim.metadata.name, name, ip }
}

/** What a claim ended with; null while it may still be, or become, ready. */
function endOf(claim: Claim): string | null {
  const ready = readinessOf(claim)
  if (ready?.status !== 'False' || !TERMINAL.has(ready.reason ?? '')) return null
  return `${ready.reason}: ${(ready.message ?? '').slice(0, 300)}`
}

const readinessOf = ({ status }: Claim) => status?.conditions?.find(({ type }) => type === 'Ready')

function claimIn(answer: KubeAnswer): Claim {
  if (answer.status >= 300) throw refused(answer)
  return parsed(claimSchema, answer, 'SandboxClaim')
}

function parsed<Schema extends z.ZodType>(
  schema: Schema,
  { body }: KubeAnswer,
  what: string,
): z.output<Schema> {
  const found = schema.safeParse(body)
  if (!found.success)
    throw new CofferdamError('protocol_violation', `Kubernetes: an answer that is no ${what}.`, {
      cause: found.error,
    })
  return found.data
}

function refused({ status, body }: KubeAnswer): CofferdamError {
  const said = statusSchema.safeParse(body)
  const reason = said.success ? (said.data.message ?? said.data.reason ?? '') : ''
  const code =
    status === 401 || status === 403 || status === 429 || status >= 500
      ? 'backend_unavailable'
      : 'sandbox_open_failed'
  return new CofferdamError(code, `Kubernetes answered ${status}: ${reason.slice(0, 300)}`, {
    details: { status },
  })
}
