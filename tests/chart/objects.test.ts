/** Objects of the chart: they refer to each other correctly, and wrong values are refused. */
import { prometheusName } from '@cofferdam/telemetry/api'
import { needs } from '@cofferdam/embedded/needs'
import { beforeAll, expect, it } from 'vitest'
import { promqlProblems } from '../promql-names.ts'
import { FLAVOURS, renderFlavours } from './flavours.ts'
import { NAMESPACE, only, renderChart, type Rendered } from './render-chart.ts'

const withHelm = needs('helm')
// The tests read objects without types.
// oxlint-disable-next-line typescript/no-explicit-any
type Any = any

withHelm.describe('objects of every flavour', () => {
  let flavours: Awaited<ReturnType<typeof renderFlavours>> = []
  beforeAll(async () => {
    flavours = await renderFlavours()
  })

  const eachOf = (kinds: readonly string[]) =>
    flavours.flatMap(([title, objects]) =>
      objects
        .filter(({ kind }) => kinds.includes(kind))
        .map((object) => ({ title: `${title}: ${object.kind} ${object.metadata.name}`, objects, object })),
    )
  const pods = (objects: readonly Rendered[]): Any[] =>
    objects.filter(({ kind }) => kind === 'Deployment').map(({ spec }) => spec.template)
  const matches = (selector: Any, labels: Any): boolean =>
    Object.entries(selector.matchLabels ?? selector).every(([name, value]) => labels[name] === value)

  it('have valid names and labels, also with a long name of the release', async () => {
    const long = await renderChart({ ...FLAVOURS['everything on'], release: 'a'.repeat(53) })
    for (const { metadata } of [...flavours.flatMap(([, objects]) => objects), ...long]) {
      expect(metadata.name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
      expect(metadata.name.length, metadata.name).toBeLessThanOrEqual(63)
      for (const value of Object.values(metadata.labels ?? {}))
        expect(value).toMatch(/^[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/)
    }
  })

  it('are in the namespace of the release, or in that of the sandboxes', () => {
    for (const [title, objects] of flavours)
      for (const { kind, metadata } of objects)
        if (kind !== 'Namespace')
          expect([NAMESPACE, 'cofferdam-sandboxes'], `${title}: ${metadata.name}`).toContain(
            metadata.namespace,
          )
  })

  it('are each there once', () => {
    for (const [title, objects] of flavours) {
      const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.namespace} ${metadata.name}`)
      expect(new Set(names).size, title).toBe(names.length)
    }
  })

  it('select pods that exist', () => {
    const found = eachOf(['Deployment', 'Service', 'PodDisruptionBudget', 'NetworkPolicy'])
    for (const { title, objects, object } of found) {
      const { selector, podSelector, template } = object['spec']
      if (object.metadata.namespace !== NAMESPACE) continue
      const wanted = selector ?? podSelector
      const among = template === undefined ? pods(objects) : [template]
      expect(
        among.some((pod) => matches(wanted, pod.metadata.labels)),
        title,
      ).toBe(true)
    }
  })

  it('of two kinds of workers select no pod of the other', () => {
    const [, objects] = flavours.find(([title]) => title === 'everything on') ?? ['', []]
    for (const { spec } of objects.filter(({ kind }) => kind === 'Deployment'))
      expect(pods(objects).filter((pod) => matches(spec.selector, pod.metadata.labels))).toEqual([
        spec.template,
      ])
  })

  it('name service accounts, claims, configuration and ports that exist', () => {
    for (const { title, objects, object } of eachOf(['Deployment'])) {
      const pod = object['spec'].template.spec
      only(objects, 'ServiceAccount', pod.serviceAccountName)
      for (const { configMap, persistentVolumeClaim: claim } of pod.volumes as Any[]) {
        if (configMap !== undefined) only(objects, 'ConfigMap', configMap.name)
        if (claim !== undefined && claim.claimName !== 'data')
          only(objects, 'PersistentVolumeClaim', claim.claimName)
      }
      const ports = pod.containers[0].ports.map(({ name }: Any) => name)
      for (const { spec } of objects.filter(({ kind }) => kind === 'Service'))
        if (matches(spec.selector, object['spec'].template.metadata.labels))
          expect(ports, title).toContain(spec.ports[0].targetPort)
    }
    for (const { objects, object } of eachOf(['Ingress'])) {
      const { service } = object['spec'].rules[0].http.paths[0].backend
      const { ports } = only(objects, 'Service', service.name)['spec']
      expect(ports.map(({ name }: Any) => name)).toContain(service.port.name)
    }
    for (const { objects, object } of eachOf(['ServiceMonitor'])) {
      const { selector, endpoints } = object['spec']
      const services = objects.filter(
        ({ kind, metadata }) => kind === 'Service' && matches(selector, metadata.labels),
      )
      expect(services).toHaveLength(1)
      expect(services[0]?.['spec'].ports.map(({ name }: Any) => name)).toContain(endpoints[0].port)
      // The Service selects the pods of all processes.
      for (const pod of pods(objects))
        expect(matches(services[0]?.['spec'].selector, pod.metadata.labels)).toBe(true)
    }
  })

  it('scale what exists, by metrics that exist, and leave the number of pods to whoever scales', () => {
    const scaled = eachOf(['HorizontalPodAutoscaler', 'ScaledObject'])
    expect(scaled.length).toBeGreaterThan(6)
    for (const { title, objects, object } of scaled) {
      const { scaleTargetRef, triggers = [], metrics = [] } = object['spec']
      const { kind = 'Deployment', name } = scaleTargetRef
      expect(only(objects, kind, name)['spec'].replicas, title).toBeUndefined()
      for (const { metadata, metricType } of triggers) {
        expect(promqlProblems(metadata.query), title).toEqual([])
        // A pool's query is a number of pods. With `Value`, an HPA would multiply the present number by it.
        if (kind === 'SandboxWarmPool')
          expect([metricType, metadata.threshold]).toEqual(['AverageValue', '1'])
      }
      for (const { external } of metrics as Any[]) {
        if (external === undefined) continue
        expect(external.metric.name).toBe(prometheusName('cofferdam.dispatcher.spare_target'))
        expect(external.target).toEqual({ type: 'AverageValue', averageValue: '1' })
      }
    }
    const worker = scaled.find(({ title }) =>
      title.endsWith('flavour plain: ScaledObject cofferdam-worker-process'),
    )
    expect(worker?.object['spec'].triggers[0].metadata.threshold).toBe('4')
    expect(worker?.object['spec'].minReplicaCount).toBeGreaterThanOrEqual(1)
  })

  it('scale each kind of worker in each cell by what there is to do for it, not by the whole queue', () => {
    const groups = new Set<string>()
    for (const { title, objects, object } of eachOf(['ScaledObject'])) {
      const { scaleTargetRef, triggers } = object['spec']
      if (scaleTargetRef.kind !== undefined) continue
      const { env } = only(objects, 'Deployment', scaleTargetRef.name)['spec'].template.spec.containers[0]
      const { value } = env.find(({ name }: Any) => name === 'COFFERDAM_WORKER_GROUP')
      groups.add(value)
      const [depth, age] = triggers.map(({ metadata }: Any) => metadata.query)
      expect(depth, title).toMatch(/^sum\(max by .*cofferdam_group_depth\{/)
      expect(age, title).toMatch(/^max\(cofferdam_group_age_seconds\{/)
      for (const query of [depth, age]) expect(query, title).toContain(`cofferdam_worker_group="${value}"`)
    }
    expect([...groups].toSorted()).toEqual(['kubernetes', 'pods', 'process', 'vendors', 'vendors-cell-2'])
  })

  it('migrate before the installation and before each upgrade, with nothing but the Secret', () => {
    for (const { object } of eachOf(['Job'])) {
      expect(object.metadata.annotations?.['helm.sh/hook']).toBe('pre-install,pre-upgrade')
      const { containers, volumes } = object['spec'].template.spec
      expect(containers[0].args).toEqual(['setup', '--migrate-only'])
      expect(containers[0].env.map(({ name }: Any) => name)).toEqual(['DATABASE_URL'])
      expect(volumes.map((volume: Any) => Object.keys(volume))).toEqual([['name', 'emptyDir']])
    }
    for (const { object } of eachOf(['Secret', 'ExternalSecret']))
      expect(object.metadata.annotations).toMatchObject({
        'helm.sh/hook': 'pre-install,pre-upgrade',
        'helm.sh/hook-weight': '-10',
      })
    for (const { object } of eachOf(['PersistentVolumeClaim']))
      expect(object.metadata.annotations).toMatchObject({ 'helm.sh/resource-policy': 'keep' })
  })

  it('give rights on claims and one pool only, and none in the whole cluster', () => {
    for (const { title, object } of eachOf(['ClusterRole', 'ClusterRoleBinding']))
      expect(object, title).toBeUndefined()
    for (const { title, object } of eachOf(['Role']))
      for (const { apiGroups, resources } of object['rules']) {
        expect(apiGroups, title).toEqual(['extensions.agents.x-k8s.io'])
        expect(['sandboxclaims', 'sandboxwarmpools', 'sandboxwarmpools/scale']).toContain(resources.join())
      }
  })

  it('let only scrapes in, and everybody or the named ones to the API', () => {
    const [, objects] = flavours.find(([title]) => title === 'the flavour GKE') ?? ['', []]
    expect(only(objects, 'NetworkPolicy', 'cofferdam-metrics')['spec'].ingress).toEqual([
      {
        from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }],
        ports: [{ protocol: 'TCP', port: 9464 }],
      },
    ])
    const [rule] = only(objects, 'NetworkPolicy', 'cofferdam-api')['spec'].ingress
    expect(rule).toMatchObject({ ports: [{ port: 7070 }], from: [{ ipBlock: {} }, { ipBlock: {} }, {}] })
    const [egress] = only(objects, 'NetworkPolicy', 'cofferdam-no-metadata-service')['spec'].egress
    expect(egress.to).toContainEqual({ ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.169.254/32'] } })
  })
})

withHelm.describe('values that are wrong', () => {
  const claiming = {
    name: 'pods',
    slots: 1,
    memoryBudgetMib: 64,
    replicas: 1,
    resources: { requests: {}, limits: { memory: '1Gi' } },
  }
  it.each([
    ['a mistyped name', { api: { replicsa: 3 } }, /replicsa/],
    [
      'a backend that needs rights on the node',
      { workers: [{ ...claiming, backends: ['docker'] }] },
      /backends/,
    ],
    ['a container without a bound', { api: { resources: { limits: { memory: null } } } }, /memory/],
    [
      'workers that claim sandboxes where there are none',
      { workers: [{ ...claiming, backends: ['kubernetes'] }] },
      /workers.pods has the backend kubernetes: set sandboxes.enabled/,
    ],
    [
      'two makers of one Secret',
      {
        secret: {
          create: true,
          values: { REDIS_URL: 'redis://r', DATABASE_URL: 'postgres://p' },
          external: { enabled: true, store: { name: 'vault' } },
        },
      },
      /choose one/,
    ],
    ['a Secret without its keys', { secret: { create: true } }, /REDIS_URL/],
    ['an ingress without a host', { api: { ingress: { enabled: true } } }, /api.ingress.host/],
    ['an unknown scaler of the pool', { sandboxes: { enabled: true, scaledBy: 'me' } }, /scaledBy/],
  ])('are refused: %s', async (_title, values, reason) => {
    await expect(renderChart({ values })).rejects.toThrow(reason)
  })
})
