/** The watch of a worker's claims at the double's API server. No pod starts; tests write the status. */
import { newSandboxId, newWorkerId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { startKubernetesDouble, type KubernetesDouble } from '../double/kubernetes-double.ts'
import type { ClaimedPod } from '../src/claim-state.ts'
import { claimName, createClaims, type Claims } from '../src/claims.ts'
import { kubernetesConfigSchema } from '../src/config.ts'
import { createKubeApi, type KubeApi } from '../src/kube-api.ts'
import { claimUrl, makeClaim, patched, poolUrl } from './cluster.ts'

/** How long to wait for an event of the API server. */
const SOON = { timeout: 30_000, interval: 10 }
const LIFE_MS = 600_000

describe('the watch of claims', () => {
  let double: KubernetesDouble
  let letThrough: () => void
  const made: Promise<unknown>[] = []

  beforeAll(async () => {
    double = await startKubernetesDouble({ replicas: 0 })
    letThrough = double.holdClaims()
  })
  afterEach(async () => {
    await Promise.allSettled(made.splice(0))
    for (const { name } of double.claims()) await fetch(urlOf(name), { method: 'DELETE' })
    await vi.waitFor(() => expect([double.claims(), double.watches().open]).toEqual([[], 0]), SOON)
  })
  afterAll(async () => {
    letThrough()
    await double[Symbol.asyncDispose]()
  })

  const urlOf = (claim: string): string => claimUrl(double, claim)
  const config = (more = {}) =>
    kubernetesConfigSchema.parse({ api_server: double.origin, token_file: null, ...more })

  /** A worker's claims; `around` wraps the API client. */
  function worker(around: (api: KubeApi) => KubeApi = (api) => api): Claims {
    return createClaims(around(createKubeApi(config())), config())
  }

  /** A claim that a worker waits for: its name, and its pod. */
  function waited(claims: Claims): { claim: string; pod: Promise<ClaimedPod> } {
    const slot = newSandboxId()
    const wish = { slot, owner: newWorkerId('4be24be24be2') }
    const pod = claims.acquire(wish, LIFE_MS, AbortSignal.timeout(40_000))
    made.push(pod)
    return { claim: claimName(slot), pod }
  }
  const isMade = async (...names: string[]): Promise<void> =>
    await vi.waitFor(
      () => expect(double.claims().map(({ name }) => name)).toEqual(expect.arrayContaining(names)),
      SOON,
    )

  /** A claim of a worker that has listed claims and whose watch the test holds back. */
  async function listedOnly() {
    const arrived = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const claims = worker((api) => ({
      ...api,
      async *watch(path, signal) {
        arrived.resolve(undefined)
        await gate.promise
        yield* api.watch(path, signal)
      },
    }))
    const { claim, pod } = waited(claims)
    await Promise.all([arrived.promise, isMade(claim)])
    return { claims, claim, pod, letWatch: () => gate.resolve(undefined) }
  }
  const says = async (claim: string, status: string, reason: string, sandbox = {}): Promise<void> => {
    const condition = {
      type: 'Ready',
      status,
      reason,
      message: '',
      lastTransitionTime: new Date().toISOString(),
    }
    await patched(`${urlOf(claim)}/status`, { status: { conditions: [condition], sandbox } })
  }
  const becomesReady = async (claim: string, ip = '127.9.9.9'): Promise<void> =>
    await says(claim, 'True', 'DependenciesReady', { name: `pod-of-${claim}`, podIPs: [ip] })
  const watching = async (count: number): Promise<void> =>
    await vi.waitFor(() => expect(double.watches().open).toBe(count), SOON)
  const lists = (): string[] =>
    double.requests.filter((path) => path.includes('labelSelector') && !path.includes('watch=true'))

  it('is a single one for all claims, reads none of them, and ends with the last', async () => {
    const claims = worker()
    const before = double.requests.length
    const all = Array.from({ length: 12 }, () => waited(claims))
    await isMade(...all.map(({ claim }) => claim))
    for (const { claim } of all) await becomesReady(claim)
    const pods = await Promise.all(all.map(({ pod }) => pod))
    expect(pods.map(({ name }) => name)).toEqual(all.map(({ claim }) => `pod-of-${claim}`))
    await watching(1)
    const asked = double.requests.slice(before).filter((path) => !path.endsWith('/status'))
    const creates = asked.filter((path) => path.includes('/sandboxclaims?timeout='))
    expect(creates).toHaveLength(12)
    // A list and a watch, and another watch if this takes longer than one watch.
    expect(asked.length - creates.length).toBeLessThan(6)
    for (const { claim } of all) claims.letGo(claim)
    await watching(0)
  })

  it('reports to each worker only its own claims', async () => {
    const seen: string[] = []
    const one = worker()
    const two = worker((api) => ({
      ...api,
      async *watch(path, signal) {
        for await (const event of api.watch(path, signal)) {
          seen.push(JSON.stringify(event))
          yield event
        }
      },
    }))
    const [first, second] = [waited(one), waited(two)]
    await isMade(first.claim, second.claim)
    await becomesReady(first.claim)
    await becomesReady(second.claim)
    await Promise.all([first.pod, second.pod])
    expect(seen.join()).not.toContain(first.claim)
    await watching(2)
    one.letGo(first.claim)
    two.letGo(second.claim)
  })

  it('misses no event between its list and its first event', async () => {
    const { claims, claim, pod, letWatch } = await listedOnly()
    await becomesReady(claim)
    letWatch()
    expect(await pod).toMatchObject({ claim })
    claims.letGo(claim)
  })

  it('lists again if its version is too old, and reports what it missed', async () => {
    const { claims, claim, pod, letWatch } = await listedOnly()
    const before = lists().length
    await becomesReady(claim)
    double.compact()
    double.fault({ gone_watches: 1 })
    letWatch()
    expect(await pod).toMatchObject({ claim })
    expect(lists().length).toBeGreaterThan(before)
    claims.letGo(claim)
  })

  it('continues after its last event if its connection breaks, even at the deciding event', async () => {
    const seen: string[] = []
    const claims = worker((api) => ({
      ...api,
      // Create the claim only when the watch is open. Otherwise the worker's list might come after the claim,
      // and the watch would have no version to continue from.
      async call(method, ...asked) {
        if (method === 'POST') await watching(1)
        return await api.call(method, ...asked)
      },
      async *watch(path, signal) {
        for await (const event of api.watch(path, signal)) {
          yield event
          seen.push(event.type)
        }
      },
    }))
    const { claim, pod } = waited(claims)
    await vi.waitFor(() => expect(seen).toContain('ADDED'), SOON)
    const before = double.watches().count
    double.fault({ cut_watches: 2 })
    await becomesReady(claim)
    expect(await pod).toMatchObject({ claim })
    expect(double.watches().count).toBeGreaterThan(before)
    claims.letGo(claim)
  })

  it('continues from a bookmark if no own claim changed for long', async () => {
    const seen: string[] = []
    const claims = worker((api) => ({
      ...api,
      async *watch(path, signal) {
        for await (const event of api.watch(path, signal)) {
          yield event
          seen.push(event.type)
        }
      },
    }))
    const { claim, pod } = waited(claims)
    await isMade(claim)
    await watching(1)
    // Many changes of other objects, which the server then forgets.
    await patched(poolUrl(double), { metadata: { labels: { changed: 'yes' } } })
    double.compact()
    double.bookmark()
    await vi.waitFor(() => expect(seen).toContain('BOOKMARK'), SOON)
    const before = lists().length
    double.fault({ cut_watches: 1 })
    await becomesReady(claim)
    expect(await pod).toMatchObject({ claim })
    expect(lists()).toHaveLength(before)
    claims.letGo(claim)
  })

  it('gives up an unanswered watch, and lists', async () => {
    double.fault({ mute_watches: 1 })
    // Only watches have this short timeout, because no other call may be given up.
    const impatient = createKubeApi(config({ api_timeout_ms: 1_000 }))
    const claims = worker((api) => ({ ...api, watch: (...asked) => impatient.watch(...asked) }))
    const { claim, pod } = waited(claims)
    await isMade(claim)
    await becomesReady(claim)
    expect(await pod).toMatchObject({ claim })
    claims.letGo(claim)
  })

  it('lists several pages, and starts again at the first page if a later one has expired', async () => {
    const owner = newWorkerId('4be24be24be2')
    const names = Array.from({ length: 201 }, (_, n) => `many-${n}`)
    for (const name of names) await makeClaim(double, { name, labels: { 'cofferdam.dev/owner': owner } })
    double.fault({ gone_pages: 1 })
    const listed = await worker().list(owner)
    expect(listed.map(({ claim }) => claim).toSorted()).toEqual(names.toSorted())
  })

  it('falls back to lists with growing pauses if the API server allows no watch', async () => {
    const claims = worker((api) => ({
      ...api,
      // eslint-disable-next-line require-yield
      async *watch() {
        throw new Error('no watch here')
      },
    }))
    const { claim, pod } = waited(claims)
    await isMade(claim)
    await becomesReady(claim)
    expect(await pod).toMatchObject({ claim })
    claims.letGo(claim)
  })

  describe('after a claim was ready', () => {
    async function held(): Promise<{ claims: Claims; claim: string; lost: AbortSignal }> {
      const claims = worker()
      const { claim, pod } = waited(claims)
      await isMade(claim)
      await becomesReady(claim)
      return { claims, claim, lost: claims.lossOf(await pod) }
    }
    const abortOf = async (signal: AbortSignal): Promise<unknown> => {
      await vi.waitFor(() => expect(signal.aborted).toBe(true), SOON)
      return signal.reason
    }

    it.each([
      ['is deleted', async (claim: string) => void (await fetch(urlOf(claim), { method: 'DELETE' }))],
      ['expires', async (claim: string) => await says(claim, 'False', 'ClaimExpired')],
      ['has a pod that failed', async (claim: string) => await says(claim, 'False', 'PodFailed')],
      ['gets another pod', async (claim: string) => await becomesReady(claim, '127.8.8.8')],
    ])('reports a claim as lost if it %s', async (_what, happens) => {
      const { claims, claim, lost } = await held()
      await happens(claim)
      expect(await abortOf(lost)).toMatchObject({ code: 'sandbox_lost' })
      claims.letGo(claim)
    })

    it('reports no loss for a temporary status or another watcher’s label', async () => {
      const { claims, claim, lost } = await held()
      for (const reason of ['ReconcilerError', 'DependenciesNotReady', 'AdoptionConflict'])
        await says(claim, 'False', reason)
      await patched(urlOf(claim), { metadata: { labels: { 'cofferdam.dev/watcher': 'another' } } })
      // All earlier events have arrived when the event of a later claim has.
      const later = waited(claims)
      await isMade(later.claim)
      await becomesReady(later.claim)
      await later.pod
      expect(lost.aborted).toBe(false)
      claims.letGo(later.claim)
      claims.letGo(claim)
    })

    it('reports nothing about a claim that was let go or released', async () => {
      const { claims, claim, lost } = await held()
      expect(await claims.release(claim)).toBe(true)
      expect(lost.aborted).toBe(false)
    })
  })
})
