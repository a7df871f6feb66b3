/**
 * Pods of claims as objects of the double's API server, as Agent Sandbox's controller and a node write them.
 */
import { CoreV1Api, CustomObjectsApi, KubeConfig, Watch, type V1Pod } from '@kubernetes/client-node'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { startKubernetesDouble, type KubernetesDouble } from '../double/kubernetes-double.ts'

const NAMESPACE = { namespace: 'cofferdam-sandboxes' }
const GROUP = { group: 'extensions.agents.x-k8s.io', version: 'v1beta1', ...NAMESPACE }
const CLAIMS = { ...GROUP, plural: 'sandboxclaims' }
const SOON = { timeout: 60_000, interval: 20 }
/** The 32-bit FNV-1a hash of each name, as any implementation computes it. */
const HASH_OF = { cofferdam: 'a50ee39a' }

interface Claim {
  metadata: { uid: string; annotations?: Record<string, string> }
  status?: {
    conditions?: { status: string; reason: string; message: string }[]
    sandbox?: { name?: string; podIPs?: string[] }
  }
}

needs('bwrap').describe('the double of Kubernetes, for pods,', () => {
  const config = new KubeConfig()
  let double: KubernetesDouble
  let core: CoreV1Api
  let objects: CustomObjectsApi

  beforeAll(async () => {
    double = await startKubernetesDouble()
    config.loadFromClusterAndUser(
      { name: 'double', server: double.origin, skipTLSVerify: true },
      { name: 'nobody' },
    )
    core = config.makeApiClient(CoreV1Api)
    objects = config.makeApiClient(CustomObjectsApi)
  })
  afterEach(async () => {
    for (const { name } of double.claims())
      await objects.deleteNamespacedCustomObject({
        ...CLAIMS,
        name,
        body: { propagationPolicy: 'Foreground' },
      })
    await vi.waitFor(() => expect(double.running()).toEqual([{ pod: expect.any(String), claim: null }]), SOON)
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
  })

  const pods = async (query: { labelSelector?: string; fieldSelector?: string } = {}): Promise<V1Pod[]> =>
    (await core.listNamespacedPod({ ...NAMESPACE, ...query })).items

  const create = async (name: string, spec: object = {}, labels: object = {}): Promise<void> => {
    const body = {
      apiVersion: 'extensions.agents.x-k8s.io/v1beta1',
      kind: 'SandboxClaim',
      metadata: { name, labels },
      spec: { warmPoolRef: { name: 'cofferdam' }, ...spec },
    }
    await objects.createNamespacedCustomObject({ ...CLAIMS, body })
  }
  const claim = async (name: string): Promise<Claim> =>
    (await objects.getNamespacedCustomObject({ ...CLAIMS, name })) as Claim
  const settled = async (name: string, status = 'True'): Promise<Claim> =>
    await vi.waitFor(async () => {
      const found = await claim(name)
      expect(found.status?.conditions?.[0]?.status).toBe(status)
      return found
    }, SOON)
  const ready = async (name: string): Promise<{ made: Claim; pod: V1Pod }> => {
    const made = await settled(name)
    return {
      made,
      pod: await core.readNamespacedPod({ ...NAMESPACE, name: made.status?.sandbox?.name ?? '' }),
    }
  }

  it('shows a spare with the pool’s labels until a claim adopts the spare', async () => {
    const selector = `agents.x-k8s.io/warm-pool-sandbox=${HASH_OF.cofferdam}`
    const [spare] = await vi.waitFor(async () => {
      const found = await pods({ labelSelector: selector, fieldSelector: 'status.phase=Running' })
      expect(found).toHaveLength(1)
      return found
    }, SOON)
    expect(spare?.metadata?.labels).toEqual({
      'agents.x-k8s.io/sandbox-name-hash': expect.stringMatching(/^[0-9a-f]{8}$/) as string,
      'agents.x-k8s.io/sandbox-template-ref-hash': HASH_OF.cofferdam,
      'agents.x-k8s.io/warm-pool-sandbox': HASH_OF.cofferdam,
      'agents.x-k8s.io/created-by': 'controller',
    })
    await create('adopting')
    const { made, pod } = await ready('adopting')
    expect(pod.metadata?.uid).toBe(spare?.metadata?.uid)
    expect(made.metadata.annotations).toEqual({ 'agents.x-k8s.io/sandbox-name': pod.metadata?.name })
    expect(pod.metadata?.labels).toEqual({
      'agents.x-k8s.io/sandbox-name-hash': spare?.metadata?.labels?.['agents.x-k8s.io/sandbox-name-hash'],
      'agents.x-k8s.io/sandbox-template-ref-hash': HASH_OF.cofferdam,
    })
  })

  it('shows a claim’s pod with its node’s status, owned by the Sandbox of the same name', async () => {
    await create('shown')
    const { made, pod } = await ready('shown')
    const name = pod.metadata?.name ?? ''
    const sandbox = (await objects.getNamespacedCustomObject({
      ...GROUP,
      group: 'agents.x-k8s.io',
      plural: 'sandboxes',
      name,
    })) as Claim & { status: { selector: string } }
    expect(pod.metadata?.ownerReferences).toEqual([
      expect.objectContaining({
        apiVersion: 'agents.x-k8s.io/v1beta1',
        kind: 'Sandbox',
        name,
        uid: sandbox.metadata.uid,
        controller: true,
        blockOwnerDeletion: true,
      }),
    ])
    expect(pod).toMatchObject({
      kind: 'Pod',
      apiVersion: 'v1',
      spec: {
        restartPolicy: 'Never',
        automountServiceAccountToken: false,
        containers: [{ name: 'sandbox' }],
      },
      status: {
        phase: 'Running',
        podIP: made.status?.sandbox?.podIPs?.[0],
        containerStatuses: [{ name: 'sandbox', ready: true, restartCount: 0 }],
      },
    })
    expect(pod.status?.conditions?.find(({ type }) => type === 'Ready')?.status).toBe('True')
    expect((await pods({ labelSelector: sandbox.status.selector })).map((one) => one.metadata?.name)).toEqual(
      [name],
    )
    expect(sandbox.metadata.annotations?.['agents.x-k8s.io/pod-name']).toBe(name)
  })

  it('adds a claim’s metadata to its pod, in the domain that the controller allows', async () => {
    const labels = { 'sandbox.users.io/team': 'a', 'sub.sandbox.users.io/team': 'b' }
    const annotations = { 'example.com/note': 'any text, at all', bare: 'too' }
    await create(
      'added',
      { additionalPodMetadata: { labels, annotations } },
      { 'agents.x-k8s.io/created-by': 'somebody' },
    )
    const { pod } = await ready('added')
    expect(pod.metadata?.labels).toMatchObject({ ...labels, 'agents.x-k8s.io/created-by': 'unknown' })
    expect(pod.metadata?.annotations).toEqual({
      ...annotations,
      'agents.x-k8s.io/propagated-labels': 'sandbox.users.io/team,sub.sandbox.users.io/team',
      'agents.x-k8s.io/propagated-annotations': 'bare,example.com/note',
    })
    expect(await pods({ labelSelector: 'sandbox.users.io/team in (a)' })).toHaveLength(1)
  })

  it.each([
    [{ labels: { team: 'a' } }, 'domain prefix'],
    [{ labels: { 'example.com/team': 'a' } }, 'not in the allowlist'],
    [{ labels: { 'notsandbox.users.io/team': 'a' } }, 'not in the allowlist'],
    [{ labels: { 'sandbox.users.io/team': 'a b' } }, 'invalid label value'],
    [{ labels: { 'sandbox.users.io/-': 'a' } }, 'invalid label key'],
    [{ annotations: { 'agents.x-k8s.io/pod-name': 'x' } }, 'restricted system domain'],
    [{ annotations: { 'node.kubernetes.io/x': 'x' } }, 'restricted system domain'],
  ])('ends a claim that adds %j with InvalidMetadata', async (additionalPodMetadata, words) => {
    await create('refused', { additionalPodMetadata })
    const [condition] = (await settled('refused', 'False')).status?.conditions ?? []
    expect(condition).toMatchObject({
      reason: 'InvalidMetadata',
      message: expect.stringContaining(words) as string,
    })
  })

  it('takes a pod’s metadata from the template without system keys, and refuses changes', async () => {
    const template = {
      apiVersion: 'extensions.agents.x-k8s.io/v1beta1',
      kind: 'SandboxTemplate',
      metadata: { name: 'cofferdam' },
      spec: {
        podTemplate: {
          metadata: {
            labels: { app: 'sandbox', 'sandbox.users.io/team': 'a', 'agents.x-k8s.io/forged': 'x' },
            annotations: { 'agents.x-k8s.io/forged': 'x' },
          },
          spec: { restartPolicy: 'Never', containers: [{ name: 'agent', image: 'sandbox:1' }] },
        },
      },
    }
    const named = { ...GROUP, plural: 'sandboxtemplates', name: 'cofferdam' }
    await objects.createNamespacedCustomObject({ ...named, body: template })
    // Variables force a cold start, and therefore a pod of the current template.
    const env = [{ name: 'A', value: 'b' }]
    try {
      await create('templated', { env })
      const { pod } = await ready('templated')
      expect(pod.metadata?.labels).toMatchObject({ app: 'sandbox', 'sandbox.users.io/team': 'a' })
      expect(Object.keys({ ...pod.metadata?.labels, ...pod.metadata?.annotations })).not.toContain(
        'agents.x-k8s.io/forged',
      )
      expect(pod.spec?.containers[0]).toMatchObject({ name: 'agent', image: 'sandbox:1' })
      await create('overriding', { env, additionalPodMetadata: { labels: { 'sandbox.users.io/team': 'b' } } })
      const [condition] = (await settled('overriding', 'False')).status?.conditions ?? []
      expect(condition?.message).toContain('metadata override conflict')
    } finally {
      await objects.deleteNamespacedCustomObject(named)
    }
  })

  it('ends a deleted pod, and gives its Sandbox another with the same name', async () => {
    await create('bereft')
    const { pod } = await ready('bereft')
    const named = { ...NAMESPACE, name: pod.metadata?.name ?? '' }
    expect(await core.deleteNamespacedPod({ ...named, gracePeriodSeconds: 5 })).toMatchObject({
      metadata: { deletionGracePeriodSeconds: 5, deletionTimestamp: expect.anything() as unknown },
    })
    const next = await vi.waitFor(async () => {
      const found = await core.readNamespacedPod(named)
      expect([found.status?.phase, found.metadata?.uid === pod.metadata?.uid]).toEqual(['Running', false])
      return found
    }, SOON)
    await vi.waitFor(
      async () =>
        expect((await claim('bereft')).status?.sandbox).toEqual({
          name: named.name,
          podIPs: [next.status?.podIP],
        }),
      SOON,
    )
    expect(next.status?.podIP).not.toBe(pod.status?.podIP)
  })

  it('sends a watch the creation, changes and end of a claim’s pod', async () => {
    const seen: string[] = []
    const stop = await new Watch(config).watch(
      `/api/v1/namespaces/${NAMESPACE.namespace}/pods`,
      { fieldSelector: 'metadata.name=watched' },
      (type, { status }: V1Pod) => void seen.push(`${type} ${status?.phase}`),
      () => undefined,
    )
    try {
      await create('watched', { env: [{ name: 'A', value: 'b' }] })
      await ready('watched')
      await double.killPod('watched')
      await vi.waitFor(() => expect(seen.at(-1)).toBe('DELETED Failed'), SOON)
    } finally {
      stop.abort()
    }
    expect(seen).toEqual(['ADDED Pending', 'MODIFIED Running', 'MODIFIED Failed', 'DELETED Failed'])
  })

  it('lets a client patch a pod’s labels, and refuses changes of its spec and new pods', async () => {
    await create('patched')
    const { pod } = await ready('patched')
    const named = { ...NAMESPACE, name: pod.metadata?.name ?? '' }
    const add = [{ op: 'add', path: '/metadata/labels/seen', value: 'yes' }]
    expect((await core.patchNamespacedPod({ ...named, body: add })).metadata?.labels?.['seen']).toBe('yes')
    const change = [{ op: 'replace', path: '/spec/restartPolicy', value: 'Always' }]
    await expect(core.patchNamespacedPod({ ...named, body: change })).rejects.toMatchObject({ code: 422 })
    const own = { metadata: { name: 'own' }, spec: { containers: [{ name: 'c' }] } }
    await expect(core.createNamespacedPod({ ...NAMESPACE, body: own })).rejects.toMatchObject({ code: 403 })
    await expect(core.readNamespacedPod({ ...NAMESPACE, name: 'own' })).rejects.toMatchObject({ code: 404 })
    await expect(pods({ fieldSelector: 'spec.image=x' })).rejects.toMatchObject({ code: 400 })
    await expect(core.readNamespacedPodLog({ ...named })).rejects.toMatchObject({ code: 404 })
  })
})
