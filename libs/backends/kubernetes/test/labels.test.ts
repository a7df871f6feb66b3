/** Labels, annotations and selectors at the double's API server, as Kubernetes documents them. */
import { CustomObjectsApi, KubeConfig } from '@kubernetes/client-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startKubernetesDouble, type KubernetesDouble } from '../double/kubernetes-double.ts'

const CLAIMS = {
  group: 'extensions.agents.x-k8s.io',
  version: 'v1beta1',
  namespace: 'cofferdam-sandboxes',
  plural: 'sandboxclaims',
}
const ofLength = (length: number): string => 'x'.repeat(length)

describe('the double of Kubernetes, for labels,', () => {
  let double: KubernetesDouble
  let objects: CustomObjectsApi
  let letThrough: () => void

  beforeAll(async () => {
    double = await startKubernetesDouble({ replicas: 0 })
    letThrough = double.holdClaims()
    const config = new KubeConfig()
    config.loadFromClusterAndUser(
      { name: 'double', server: double.origin, skipTLSVerify: true },
      { name: 'nobody' },
    )
    objects = config.makeApiClient(CustomObjectsApi)
  })
  afterAll(async () => {
    letThrough()
    await double[Symbol.asyncDispose]()
  })

  const create = async (metadata: object): Promise<unknown> =>
    await objects.createNamespacedCustomObject({
      ...CLAIMS,
      body: {
        apiVersion: 'extensions.agents.x-k8s.io/v1beta1',
        kind: 'SandboxClaim',
        metadata,
        spec: { warmPoolRef: { name: 'cofferdam' } },
      },
    })
  const remove = async (name: string): Promise<unknown> =>
    await objects.deleteNamespacedCustomObject({ ...CLAIMS, name })

  it.each([
    ['plain', 'value'],
    ['a', ''],
    ['A.b_c-d', 'A.b_c-d'],
    ['example.com/name', '1'],
    [`${ofLength(253)}/${ofLength(63)}`, ofLength(63)],
  ])('accepts the label %s=%s', async (key, value) => {
    expect(await create({ name: 'taken', labels: { [key]: value } })).toMatchObject({
      metadata: { labels: { [key]: value } },
    })
    await remove('taken')
  })

  it.each([
    ['-a', 'v'],
    ['a-', 'v'],
    ['a b', 'v'],
    ['', 'v'],
    ['example.com/', 'v'],
    ['/name', 'v'],
    ['a/b/c', 'v'],
    ['Example.com/name', 'v'],
    ['under_score.com/name', 'v'],
    [ofLength(64), 'v'],
    [`${ofLength(254)}/name`, 'v'],
    ['key', ofLength(64)],
    ['key', '-v'],
    ['key', 'v.'],
    ['key', 'a b'],
    ['key', 'a/b'],
    ['key', 'grüße'],
  ])('refuses the label %s=%s, and names the field', async (key, value) => {
    await expect(create({ name: 'refused', labels: { [key]: value } })).rejects.toMatchObject({
      code: 422,
      body: expect.stringContaining('"field":"metadata.labels"') as string,
    })
  })

  it.each(['has_underscore', 'Upper', '-a', 'a-', 'a..b', ofLength(254)])(
    'refuses the name %s',
    async (name) => {
      await expect(create({ name })).rejects.toMatchObject({
        code: 422,
        body: expect.stringContaining('"field":"metadata.name"') as string,
      })
    },
  )

  it('accepts any text as an annotation under a valid key, up to 256 KiB in all', async () => {
    await create({ name: 'noted', annotations: { 'example.com/Note': 'grüße, & more /' } })
    await remove('noted')
    for (const annotations of [{ 'a b': 'v' }, { note: ofLength(256 * 1024) }])
      await expect(create({ name: 'refused', annotations })).rejects.toMatchObject({ code: 422 })
  })

  it('refuses labels that are not text', async () => {
    await expect(create({ name: 'refused', labels: { n: 1 } })).rejects.toMatchObject({ code: 400 })
  })

  it('checks changes by the same rules', async () => {
    await create({ name: 'changed', labels: { a: '1' } })
    const body = [{ op: 'replace', path: '/metadata/labels/a', value: 'no value' }]
    await expect(
      objects.patchNamespacedCustomObject({ ...CLAIMS, name: 'changed', body }),
    ).rejects.toMatchObject({ code: 422 })
    await remove('changed')
  })

  describe('selectors', () => {
    beforeAll(async () => {
      await create({ name: 'one', labels: { team: 'a', 'example.com/size': '1' } })
      await create({ name: 'two', labels: { team: 'b', 'example.com/size': '20' } })
      await create({ name: 'none' })
    })
    afterAll(async () => {
      for (const name of ['one', 'two', 'none']) await remove(name)
    })

    const selected = async (labelSelector: string): Promise<string[]> => {
      const list = (await objects.listNamespacedCustomObject({ ...CLAIMS, labelSelector })) as {
        items: { metadata: { name: string } }[]
      }
      return list.items.map(({ metadata }) => metadata.name)
    }

    it.each([
      ['team=a', ['one']],
      ['team==a', ['one']],
      ['team = a', ['one']],
      ['team!=a', ['two', 'none']],
      ['team', ['one', 'two']],
      ['!team', ['none']],
      ['team in (a, b)', ['one', 'two']],
      ['team in(a)', ['one']],
      ['team notin (a)', ['two', 'none']],
      ['team in (a,b),team!=b', ['one']],
      ['team,example.com/size in (20)', ['two']],
      ['example.com/size>3', ['two']],
      ['example.com/size < 3', ['one']],
      ['team=', []],
      ['team in (a,)', ['one']],
      ['absent notin (x)', ['one', 'two', 'none']],
      ['', ['one', 'two', 'none']],
    ])('"%s" selects %j', async (selector, names) => {
      expect(await selected(selector)).toEqual(names)
    })

    it.each([
      'team in a',
      'team in ()',
      'team in (a',
      'team notin',
      'team=a b',
      'team=a,',
      ',team=a',
      'team=-a',
      'bad key=a',
      'a/b/c=d',
      '-a',
      'team>a',
      'team==!a',
      '(team)',
    ])('"%s" is refused', async (selector) => {
      await expect(selected(selector)).rejects.toMatchObject({ code: 400 })
    })
  })
})
